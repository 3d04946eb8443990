INSERT INTO runs (
    id, organization_id, project_id, agent_profile_id, reason, idempotency_key, coalesced_count,
    degraded_reason, producer, traceparent, requested_at, decided_at, expires_at,
    payload, task_id, task_unusable, actor_type, actor_id, queue_class
)
SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) AS w
WHERE column1 IS NOT NULL
