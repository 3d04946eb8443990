-- One look-up a wake, in the order of the index. LATERAL with a LIMIT keeps the wakes outside.
SELECT w.position, r.id AS run_id, r.requested_at, r.actor_type
FROM (
    SELECT generate_subscripts($1::text[], 1) AS position,
           unnest($1::text[]) AS organization_id,
           unnest($2::text[]) AS agent_profile_id,
           unnest($3::text[]) AS reason,
           unnest($4::timestamptz[]) AS after,
           unnest($5::timestamptz[]) AS until,
           unnest($6::text[]) AS task_id
) w
CROSS JOIN LATERAL (
    SELECT m.id, m.requested_at, m.actor_type
    FROM mergeable_runs m
    WHERE m.organization_id = w.organization_id
        AND m.task_id = w.task_id
        AND m.agent_profile_id = w.agent_profile_id
        AND m.reason = w.reason
        AND m.requested_at > w.after
        AND m.requested_at <= w.until
    ORDER BY m.requested_at DESC, m.id DESC
    LIMIT 1
) r
