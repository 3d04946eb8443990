SELECT w.position, a.status
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY
    AS w (organization_id, agent_profile_id, position)
JOIN agents a
    ON a.organization_id = w.organization_id AND a.agent_profile_id = w.agent_profile_id
