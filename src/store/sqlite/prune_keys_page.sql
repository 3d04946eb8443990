-- A key stays as long as its run, and as long as a wake that joined a run with it.
SELECT w.organization_id, w.idempotency_key, w.requested_at < ?4
    AND NOT EXISTS (
        SELECT 1
        FROM runs r
        WHERE r.id = w.run_id
            AND NOT (
            r.status IN ('succeeded', 'failed', 'cancelled', 'expired', 'timed_out',
                          'limit_exceeded')
            AND r.requested_at < ?3
            AND (r.finished_at IS NULL OR r.finished_at < ?3)
            )
    )
    AND NOT EXISTS (
        SELECT 1
        FROM merged_wakes m
        WHERE m.organization_id = w.organization_id AND m.idempotency_key = w.idempotency_key
            AND (m.requested_at >= ?3 OR EXISTS (
                SELECT 1
                FROM runs r
                WHERE r.id = m.run_id
                    AND NOT (
            r.status IN ('succeeded', 'failed', 'cancelled', 'expired', 'timed_out',
                          'limit_exceeded')
            AND r.requested_at < ?3
            AND (r.finished_at IS NULL OR r.finished_at < ?3)
                    )
            ))
    ) AS prunable
FROM (
    SELECT organization_id, idempotency_key, run_id, requested_at
    FROM wake_keys
    WHERE (organization_id, idempotency_key) > (?1, ?2)
    ORDER BY organization_id, idempotency_key
    LIMIT ?5
) w
