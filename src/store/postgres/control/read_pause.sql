SELECT id, scope, organization_id, mode, actor, reason, created_at, released_at,
    released_by, release_reason
FROM pauses
WHERE id = $1
