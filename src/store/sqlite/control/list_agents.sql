SELECT organization_id, agent_profile_id, status, actor, reason, updated_at
FROM agents
WHERE (?1 IS NULL OR organization_id = ?1)
    AND (?2 IS NULL OR status = ?2)
    AND (?3 IS NULL OR (organization_id, agent_profile_id) > (?3, ?4))
ORDER BY organization_id, agent_profile_id
LIMIT ?5
