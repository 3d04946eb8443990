SELECT wake_id, run_id, organization_id, idempotency_key, actor_type, actor_id, requested_at, decided_at
FROM merged_wakes
WHERE wake_id = ?
