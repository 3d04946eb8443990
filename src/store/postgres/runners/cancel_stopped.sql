-- Rows of runs are locked before the queue is, and what somebody else has locked is left for the next
-- time. Pauses may be written by others, so their texts are cut to what a run may hold.
UPDATE runs r
SET cancel_requested_at = $1,
    cancel_actor = nullif(left(s.actor, 64), ''),
    cancel_reason = nullif(left(s.reason, 256), '')
FROM (
    SELECT l.id, p.actor, p.reason
    FROM pauses p
    CROSS JOIN LATERAL (
        SELECT u.id
        FROM runs u
        WHERE u.organization_id = p.organization_id
            AND u.status IN ('claimed', 'running') AND u.cancel_requested_at IS NULL
        ORDER BY u.id
        LIMIT $2
        FOR UPDATE SKIP LOCKED
    ) l
    WHERE p.scope = 'organization' AND p.mode = 'stop_now' AND p.released_at IS NULL
    UNION ALL
    SELECT l.id, p.actor, p.reason
    FROM pauses p
    CROSS JOIN LATERAL (
        SELECT u.id
        FROM runs u
        WHERE u.status IN ('claimed', 'running') AND u.cancel_requested_at IS NULL
        ORDER BY u.organization_id, u.id
        LIMIT $2
        FOR UPDATE SKIP LOCKED
    ) l
    WHERE p.scope = 'platform' AND p.mode = 'stop_now' AND p.released_at IS NULL
    LIMIT $2
) s
WHERE r.id = s.id
RETURNING r.id, r.organization_id, r.status
