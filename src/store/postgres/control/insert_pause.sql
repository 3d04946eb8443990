INSERT INTO pauses (scope, organization_id, mode, actor, reason, created_at)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (scope, organization_id) WHERE released_at IS NULL DO NOTHING
RETURNING id, scope, organization_id, mode, actor, reason, created_at, released_at,
    released_by, release_reason
