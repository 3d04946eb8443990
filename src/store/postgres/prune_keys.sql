-- Each is looked up by its primary key, whatever statistics say, and found by where it lies: a key is
-- never updated. One that a wake has carried into a run meanwhile stays.
DELETE FROM wake_keys
WHERE ctid = ANY (ARRAY (
    SELECT k.ctid
    FROM (
        SELECT unnest($1::text[]) AS organization_id, unnest($2::text[]) AS idempotency_key
    ) w
    CROSS JOIN LATERAL (
        SELECT s.ctid
        FROM wake_keys s
        WHERE s.organization_id = w.organization_id AND s.idempotency_key = w.idempotency_key
        LIMIT 1
    ) k
    LEFT JOIN LATERAL (
        -- OFFSET 0 keeps the instant from being what is looked up.
        SELECT true AS stays
        FROM (
            SELECT s.requested_at
            FROM merged_wakes s
            WHERE s.organization_id = w.organization_id
                AND s.idempotency_key = w.idempotency_key
            OFFSET 0
        ) c
        WHERE c.requested_at >= $3
        LIMIT 1
    ) m ON true
    WHERE m.stays IS NULL
))
RETURNING run_id
