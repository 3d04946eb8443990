SELECT id, scope, organization_id, mode, actor, reason, created_at, released_at,
    released_by, release_reason
FROM pauses
WHERE scope = 'organization' AND released_at IS NULL
    AND ($1::text IS NULL OR organization_id > $1)
ORDER BY organization_id
LIMIT $2
