SELECT w.position, r.requested_at, r.id
FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[]) WITH ORDINALITY
    AS w (organization_id, task_id, after, until, position)
CROSS JOIN LATERAL (
    SELECT c.requested_at, c.id
    FROM counted_runs c
    WHERE c.organization_id = w.organization_id
        AND c.task_id = w.task_id
        AND c.requested_at > w.after
        AND c.requested_at <= w.until
    ORDER BY c.requested_at DESC, c.id DESC
    LIMIT $5
) r
