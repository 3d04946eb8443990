UPDATE runs
SET status = CASE WHEN cancel_requested_at IS NULL THEN 'queued' ELSE 'cancelled' END,
    finished_at = CASE WHEN cancel_requested_at IS NULL THEN finished_at ELSE ?1 END,
    claimed_at = CASE WHEN cancel_requested_at IS NULL THEN NULL ELSE claimed_at END,
    runner_id = CASE WHEN cancel_requested_at IS NULL THEN NULL ELSE runner_id END,
    claim_id = NULL,
    lease_expires_at = NULL
WHERE id IN (
    SELECT l.id
    FROM runs l
    WHERE l.status IN ('claimed', 'running') AND l.status = 'claimed' AND l.lease_expires_at <= ?1
    ORDER BY l.lease_expires_at
    LIMIT ?2
)
RETURNING id, organization_id, status
