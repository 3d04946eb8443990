UPDATE runs
SET status = 'cancelled', ended_reason = 'unconfirmed', finished_at = ?2
WHERE id IN (
    SELECT l.id
    FROM runs l
    WHERE l.status IN ('claimed', 'running') AND l.cancel_requested_at <= ?1
    ORDER BY l.cancel_requested_at
    LIMIT ?3
)
RETURNING id, organization_id, status
