WITH w (position, organization_id, agent_profile_id) AS (VALUES (?, ?, ?))
SELECT w.position, a.status
FROM w CROSS JOIN agents a
    ON a.organization_id = w.organization_id AND a.agent_profile_id = w.agent_profile_id
