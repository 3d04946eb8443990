-- Fewer rows than asked means that another lane took one.
INSERT INTO wake_keys (organization_id, idempotency_key, run_id, requested_at)
VALUES (?, ?, ?, ?)
ON CONFLICT (organization_id, idempotency_key) DO NOTHING
