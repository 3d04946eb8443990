-- What has not been started cannot have succeeded.
UPDATE runs
SET status = $3, ended_reason = $4, finished_at = $5
WHERE id = $1 AND fencing_token = $2
    AND (status = 'running'
         OR status = 'claimed' AND $3 <> 'succeeded'
             AND (lease_expires_at IS NULL OR lease_expires_at > $5))
RETURNING id
