-- Each is looked up by its primary key. One that a wake has carried into a run meanwhile stays.
WITH w (organization_id, idempotency_key) AS (VALUES (?, ?))
DELETE FROM wake_keys
WHERE (organization_id, idempotency_key) IN (SELECT organization_id, idempotency_key FROM w)
    AND NOT EXISTS (
        SELECT 1
        FROM merged_wakes m
        WHERE m.organization_id = wake_keys.organization_id
            AND m.idempotency_key = wake_keys.idempotency_key
            AND m.requested_at >= ?
    )
RETURNING run_id
