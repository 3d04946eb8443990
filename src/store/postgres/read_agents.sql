SELECT w.position, a.status
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY
    AS w (organization_id, agent_profile_id, position)
CROSS JOIN LATERAL (
    SELECT s.status
    FROM agents s
    WHERE s.organization_id = w.organization_id AND s.agent_profile_id = w.agent_profile_id
    LIMIT 1
) a
