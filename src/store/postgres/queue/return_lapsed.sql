-- Locked before the queue is, and what somebody else has locked is left for the next time.
UPDATE runs r
SET status = CASE WHEN r.cancel_requested_at IS NULL THEN 'queued' ELSE 'cancelled' END,
    finished_at = CASE WHEN r.cancel_requested_at IS NULL THEN r.finished_at ELSE $1 END,
    claimed_at = CASE WHEN r.cancel_requested_at IS NULL THEN NULL ELSE r.claimed_at END,
    runner_id = CASE WHEN r.cancel_requested_at IS NULL THEN NULL ELSE r.runner_id END,
    claim_id = NULL,
    lease_expires_at = NULL
WHERE r.id = ANY (ARRAY (
    SELECT l.id
    FROM runs l
    WHERE l.status = 'claimed' AND l.lease_expires_at <= $1
    ORDER BY l.lease_expires_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
))
RETURNING r.id, r.organization_id, r.status
