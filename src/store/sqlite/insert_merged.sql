INSERT INTO merged_wakes (
    wake_id, run_id, organization_id, idempotency_key, requested_at, decided_at,
    payload, actor_type, actor_id
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (wake_id) DO NOTHING
