-- A wake that joined a run stays as long as the run.
SELECT w.wake_id AS id, w.requested_at < ?2 AND NOT EXISTS (
    SELECT 1
    FROM runs r
    WHERE r.id = w.run_id
        AND NOT (
            r.status IN ('succeeded', 'failed', 'cancelled', 'expired', 'timed_out',
                          'limit_exceeded')
            AND r.requested_at < ?2
            AND (r.finished_at IS NULL OR r.finished_at < ?2)
        )
) AS prunable
FROM (
    SELECT wake_id, run_id, requested_at
    FROM merged_wakes
    WHERE wake_id > ?1
    ORDER BY wake_id
    LIMIT ?3
) w
