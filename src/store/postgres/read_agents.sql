SELECT w.position, a.status
FROM (
    SELECT generate_subscripts($1::text[], 1) AS position,
           unnest($1::text[]) AS organization_id,
           unnest($2::text[]) AS agent_profile_id
) w
CROSS JOIN LATERAL (
    SELECT s.status
    FROM agents s
    WHERE s.organization_id = w.organization_id AND s.agent_profile_id = w.agent_profile_id
    LIMIT 1
) a
