UPDATE runs
SET status = 'expired', ended_reason = 'waited_too_long', finished_at = ?1
WHERE id IN (
    SELECT l.id
    FROM runs l
    WHERE l.status = 'queued' AND l.expires_at <= ?1
    ORDER BY l.expires_at
    LIMIT ?2
)
RETURNING id, organization_id, status
