SELECT organization_id, idempotency_key, run_id, requested_at
FROM wake_keys
WHERE organization_id = $1 AND idempotency_key = $2
