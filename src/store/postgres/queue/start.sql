UPDATE runs
SET status = 'running', started_at = $4, lease_expires_at = greatest(lease_expires_at, $3)
WHERE id = $1 AND fencing_token = $2
    AND status = 'claimed'
    AND (lease_expires_at IS NULL OR lease_expires_at > $4)
    AND cancel_requested_at IS NULL
RETURNING lease_expires_at
