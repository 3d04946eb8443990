-- A key that is taken fails the statement.
INSERT INTO wake_keys (organization_id, idempotency_key, run_id, requested_at)
SELECT * FROM (VALUES (?, ?, ?, ?)) AS w WHERE column3 IS NOT NULL
