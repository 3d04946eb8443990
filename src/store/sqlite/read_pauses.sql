WITH w (position, organization_id) AS (VALUES (?, ?))
SELECT w.position, p.id
FROM w CROSS JOIN pauses p
    ON p.scope = 'organization' AND p.organization_id = w.organization_id
    AND p.released_at IS NULL
