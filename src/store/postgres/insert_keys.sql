-- Waits for a rival that has not committed yet; fewer rows than asked means that it won.
INSERT INTO wake_keys (organization_id, idempotency_key, run_id, requested_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[], $4::timestamptz[])
ON CONFLICT (organization_id, idempotency_key) DO NOTHING
