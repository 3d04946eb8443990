WITH w (position, organization_id) AS (VALUES (?, ?))
SELECT w.position, o.queued, o.active
FROM w CROSS JOIN queue_organizations o ON o.organization_id = w.organization_id
