-- Pauses may be written by others, so their texts are cut to what a run may hold.
UPDATE runs
SET cancel_requested_at = ?1,
    (cancel_actor, cancel_reason) = (
        SELECT nullif(substr(p.actor, 1, 64), ''), nullif(substr(p.reason, 1, 256), '')
        FROM pauses p
        WHERE p.mode = 'stop_now' AND p.released_at IS NULL
            AND (p.scope = 'platform' OR p.organization_id = runs.organization_id)
        ORDER BY p.scope
        LIMIT 1
    )
WHERE id IN (
    SELECT u.id
    FROM pauses p
    JOIN runs u ON u.organization_id = p.organization_id
    WHERE p.scope = 'organization' AND p.mode = 'stop_now' AND p.released_at IS NULL
        AND u.status IN ('claimed', 'running') AND u.cancel_requested_at IS NULL
    UNION ALL
    SELECT u.id
    FROM pauses p
    CROSS JOIN runs u
    WHERE p.scope = 'platform' AND p.mode = 'stop_now' AND p.released_at IS NULL
        AND u.status IN ('claimed', 'running') AND u.cancel_requested_at IS NULL
    LIMIT ?2
)
RETURNING id, organization_id, status
