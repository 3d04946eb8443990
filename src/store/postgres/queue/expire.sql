UPDATE runs r
SET status = 'expired', ended_reason = 'waited_too_long', finished_at = $1
WHERE r.id = ANY (ARRAY (
    SELECT l.id
    FROM runs l
    WHERE l.status = 'queued' AND l.expires_at <= $1
    ORDER BY l.expires_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
))
RETURNING r.id, r.organization_id, r.status
