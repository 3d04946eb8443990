-- The next rows of the primary key; what they are filtered by is the caller's.
SELECT id, organization_id, project_id, agent_profile_id, reason, status, task_id, actor_type, actor_id,
       idempotency_key, coalesced_count, degraded_reason, producer, requested_at, decided_at,
       claimed_at, finished_at
FROM runs
WHERE id < $1
ORDER BY id DESC
LIMIT $2
