DELETE FROM runs
WHERE id = ANY ($1::uuid[])
    AND status IN ('succeeded', 'failed', 'cancelled', 'expired', 'timed_out', 'limit_exceeded')
    AND requested_at < $2
    AND (finished_at IS NULL OR finished_at < $2)
RETURNING id
