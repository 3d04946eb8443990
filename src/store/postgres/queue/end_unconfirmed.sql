UPDATE runs r
SET status = 'cancelled', ended_reason = 'unconfirmed', finished_at = $2
WHERE r.id = ANY (ARRAY (
    SELECT l.id
    FROM runs l
    WHERE l.status IN ('claimed', 'running') AND l.cancel_requested_at <= $1
    ORDER BY l.cancel_requested_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED
))
RETURNING r.id, r.organization_id, r.status
