-- No ON CONFLICT, which looks twice at each row: this waits for a rival that has not committed yet,
-- and a key that is taken fails the statement.
INSERT INTO wake_keys (organization_id, idempotency_key, run_id, requested_at)
SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::uuid[]), unnest($4::timestamptz[])
