SELECT organization_id, idempotency_key, run_id, requested_at
FROM wake_keys
WHERE organization_id = ? AND idempotency_key = ?
