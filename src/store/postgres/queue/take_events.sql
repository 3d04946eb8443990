-- The beginning of the primary key: what is published is deleted.
SELECT id, run_id, organization_id, project_id, task_id, agent_profile_id, event, at, reason,
       runner_id, fencing_token, actor, traceparent
FROM run_events
WHERE id > 0
ORDER BY id
LIMIT $1
