SELECT organization_id, agent_profile_id, status, actor, reason, updated_at
FROM agents
WHERE organization_id = ?1 AND agent_profile_id = ?2
