SELECT w.position, r.requested_at, r.id AS run_id
FROM (
    SELECT generate_subscripts($1::text[], 1) AS position,
           unnest($1::text[]) AS organization_id,
           unnest($2::text[]) AS task_id,
           unnest($3::timestamptz[]) AS after,
           unnest($4::timestamptz[]) AS until
) w
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
