SELECT organization_id, idempotency_key, run_id, requested_at
FROM wake_keys
WHERE organization_id = $1 AND idempotency_key >= $2 AND idempotency_key < $3
ORDER BY idempotency_key
LIMIT $4
