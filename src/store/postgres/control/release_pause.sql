UPDATE pauses
SET released_at = $2, released_by = $3, release_reason = $4
WHERE id = $1 AND released_at IS NULL
RETURNING id, scope, organization_id, mode, actor, reason, created_at, released_at,
    released_by, release_reason
