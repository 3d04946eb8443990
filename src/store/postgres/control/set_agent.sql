INSERT INTO agents (organization_id, agent_profile_id, status, actor, reason, updated_at)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (organization_id, agent_profile_id) DO UPDATE
SET status = excluded.status, actor = excluded.actor, reason = excluded.reason,
    updated_at = excluded.updated_at
RETURNING organization_id, agent_profile_id, status, actor, reason, updated_at
