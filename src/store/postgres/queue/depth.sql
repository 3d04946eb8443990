-- The platform's row is of kind 0; positions count from 1.
SELECT 0 AS kind, 0 AS position, p.queued, p.active
FROM queue_platform p
WHERE p.singleton
UNION ALL
SELECT 1, w.position, d.queued, d.active
FROM (
    SELECT generate_subscripts($1::text[], 1) AS position, unnest($1::text[]) AS organization_id
) w
CROSS JOIN LATERAL (
    SELECT o.queued, o.active
    FROM queue_organizations o
    WHERE o.organization_id = w.organization_id
    LIMIT 1
) d
UNION ALL
SELECT 2, w.position, d.queued, d.active
FROM (
    SELECT generate_subscripts($2::text[], 1) AS position,
           unnest($2::text[]) AS organization_id,
           unnest($3::text[]) AS project_id
) w
CROSS JOIN LATERAL (
    SELECT p.queued, p.active
    FROM queue_projects p
    WHERE p.organization_id = w.organization_id AND p.project_id = w.project_id
    LIMIT 1
) d
