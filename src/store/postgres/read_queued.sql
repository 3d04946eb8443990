-- Two look-ups, each in the order of its index: a task's runs, and an agent's taskless ones.
SELECT w.position, r.id, r.requested_at, r.actor_type
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[])
    WITH ORDINALITY
    AS w (organization_id, agent_profile_id, reason, task_id, after, until, position)
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
WHERE w.task_id IS NOT NULL
UNION ALL
SELECT w.position, r.id, r.requested_at, r.actor_type
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[])
    WITH ORDINALITY
    AS w (organization_id, agent_profile_id, reason, task_id, after, until, position)
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
WHERE w.task_id IS NULL
