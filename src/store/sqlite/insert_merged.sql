INSERT INTO merged_wakes (
    wake_id, run_id, organization_id, idempotency_key, requested_at, decided_at,
    payload, actor_type, actor_id
)
SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)) AS w WHERE column1 IS NOT NULL
