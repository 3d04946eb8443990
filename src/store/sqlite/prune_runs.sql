DELETE FROM runs
WHERE id IN (VALUES (?))
    AND status IN ('succeeded', 'failed', 'cancelled', 'expired', 'timed_out', 'limit_exceeded')
    AND max(requested_at, coalesce(finished_at, requested_at)) < ?
RETURNING id
