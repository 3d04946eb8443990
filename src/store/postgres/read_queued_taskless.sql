-- As for wakes that name a task, in the index of runs that name none.
SELECT w.position, r.id AS run_id, r.requested_at, r.actor_type
FROM (
    SELECT generate_subscripts($1::text[], 1) AS position,
           unnest($1::text[]) AS organization_id,
           unnest($2::text[]) AS agent_profile_id,
           unnest($3::text[]) AS reason,
           unnest($4::timestamptz[]) AS after,
           unnest($5::timestamptz[]) AS until
) w
CROSS JOIN LATERAL (
    SELECT m.id, m.requested_at, m.actor_type
    FROM mergeable_runs m
    WHERE m.organization_id = w.organization_id
        AND m.task_id IS NULL
        AND m.agent_profile_id = w.agent_profile_id
        AND m.reason = w.reason
        AND m.requested_at > w.after
        AND m.requested_at <= w.until
    ORDER BY m.requested_at DESC, m.id DESC
    LIMIT 1
) r
