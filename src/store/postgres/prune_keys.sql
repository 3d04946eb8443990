-- Keys of one organization. One that a wake has carried into a run meanwhile stays.
DELETE FROM wake_keys k
WHERE k.organization_id = $1 AND k.idempotency_key = ANY ($2::text[])
    AND NOT EXISTS (
        SELECT 1
        FROM merged_wakes m
        WHERE m.organization_id = k.organization_id AND m.idempotency_key = k.idempotency_key
            AND m.requested_at >= $3
    )
RETURNING k.run_id
