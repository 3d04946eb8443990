-- Never to be run again: it may have had effects.
UPDATE runs
SET status = 'failed', ended_reason = 'lease_lost', finished_at = ?1
WHERE id IN (
    SELECT l.id
    FROM runs l
    WHERE l.status IN ('claimed', 'running') AND l.status = 'running' AND l.lease_expires_at <= ?1
    ORDER BY l.lease_expires_at
    LIMIT ?2
)
RETURNING id, organization_id, status
