-- Never to be run again: it may have had effects.
UPDATE runs r
SET status = 'failed', ended_reason = 'lease_lost', finished_at = $1
WHERE r.id = ANY (ARRAY (
    SELECT l.id
    FROM runs l
    WHERE l.status = 'running' AND l.lease_expires_at <= $1
    ORDER BY l.lease_expires_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
))
RETURNING r.id, r.organization_id, r.status
