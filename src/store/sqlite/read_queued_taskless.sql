WITH w (position, organization_id, agent_profile_id, reason, after, until)
    AS (VALUES (?, ?, ?, ?, ?, ?))
SELECT w.position, r.id, r.requested_at, r.actor_type
FROM w CROSS JOIN runs r ON r.id = (
    SELECT m.id
    FROM mergeable_runs m
    WHERE m.organization_id = w.organization_id
        AND m.task_id IS NULL
        AND m.agent_profile_id = w.agent_profile_id
        AND m.reason = w.reason
        AND m.requested_at > w.after
        AND m.requested_at <= w.until
    ORDER BY m.requested_at DESC, m.id DESC
    LIMIT 1
)
