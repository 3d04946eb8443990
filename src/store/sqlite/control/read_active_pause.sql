SELECT id, scope, organization_id, mode, actor, reason, created_at, released_at,
    released_by, release_reason
FROM pauses
WHERE scope = ?1 AND organization_id = ?2 AND released_at IS NULL
