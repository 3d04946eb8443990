WITH w (position, organization_id, task_id, after, until) AS (VALUES (?, ?, ?, ?, ?))
SELECT w.position, r.requested_at, r.id
FROM w CROSS JOIN runs r ON r.id IN (
    SELECT c.id
    FROM counted_runs c
    WHERE c.organization_id = w.organization_id
        AND c.task_id = w.task_id
        AND c.requested_at > w.after
        AND c.requested_at <= w.until
    ORDER BY c.requested_at DESC, c.id DESC
    LIMIT ?
)
