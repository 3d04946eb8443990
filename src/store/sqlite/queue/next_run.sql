SELECT p.head_id AS id
FROM queue_projects p
WHERE p.organization_id = ? AND p.ready
ORDER BY p.head_rank, p.head_id
LIMIT 1
