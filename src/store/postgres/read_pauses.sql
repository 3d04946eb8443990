SELECT 0 AS position, p.id AS pause_id
FROM pauses p
WHERE p.scope = 'platform' AND p.organization_id = '' AND p.released_at IS NULL
UNION ALL
SELECT w.position, p.id
FROM (
    SELECT generate_subscripts($1::text[], 1) AS position,
           unnest($1::text[]) AS organization_id
) w
CROSS JOIN LATERAL (
    SELECT s.id
    FROM pauses s
    WHERE s.scope = 'organization' AND s.organization_id = w.organization_id
        AND s.released_at IS NULL
    LIMIT 1
) p
