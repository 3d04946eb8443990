SELECT id, organization_id, project_id, agent_profile_id, reason, status, task_id, actor_type, actor_id,
       idempotency_key, coalesced_count, degraded_reason, producer, requested_at, decided_at,
       claimed_at, finished_at
FROM runs
WHERE organization_id = ? AND task_id = ? AND (requested_at, id) < (?, ?)
ORDER BY requested_at DESC, id DESC
LIMIT ?
