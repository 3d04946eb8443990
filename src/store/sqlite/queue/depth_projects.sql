WITH w (position, organization_id, project_id) AS (VALUES (?, ?, ?))
SELECT w.position, p.queued, p.active
FROM w CROSS JOIN queue_projects p
    ON p.organization_id = w.organization_id AND p.project_id = w.project_id
