WITH w (position, organization_id, project_id) AS (VALUES (?, ?, ?))
SELECT w.position, q.queued AS depth
FROM w CROSS JOIN queue_projects q
    ON q.organization_id = w.organization_id AND q.project_id = w.project_id
