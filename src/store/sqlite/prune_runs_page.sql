-- The next rows of the primary key, and which of them may go.
SELECT id, status IN ('succeeded', 'failed', 'cancelled', 'expired', 'timed_out', 'limit_exceeded')
        AND requested_at < ?2
        AND (finished_at IS NULL OR finished_at < ?2) AS prunable
FROM runs
WHERE id > ?1
ORDER BY id
LIMIT ?3
