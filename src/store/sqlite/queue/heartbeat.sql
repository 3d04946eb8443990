UPDATE runs
SET lease_expires_at = max(coalesce(lease_expires_at, ?3), ?3)
WHERE id = ?1 AND fencing_token = ?2
    AND (status = 'running'
         OR status = 'claimed' AND (lease_expires_at IS NULL OR lease_expires_at > ?4))
RETURNING lease_expires_at, cancel_requested_at IS NOT NULL AS cancelling
