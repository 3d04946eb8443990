UPDATE runs
SET status = 'expired', finished_at = ?2, ended_reason = 'waited_too_long'
WHERE id = ?1 AND status = 'queued' AND expires_at <= ?2
RETURNING id
