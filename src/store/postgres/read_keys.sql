-- A merge's key is in wake_keys as well, so merges are looked up only for keys that are known: in
-- the common case, a new key, one probe. OFFSET 0 is a LIMIT that leaves nothing out.
SELECT w.position, k.run_id, k.requested_at, m.run_id AS merged_run_id,
       m.requested_at AS merged_at
FROM (
    SELECT generate_subscripts($1::text[], 1) AS position,
           unnest($1::text[]) AS organization_id,
           unnest($2::text[]) AS idempotency_key
) w
CROSS JOIN LATERAL (
    SELECT s.run_id, s.requested_at
    FROM wake_keys s
    WHERE s.organization_id = w.organization_id AND s.idempotency_key = w.idempotency_key
    LIMIT 1
) k
LEFT JOIN LATERAL (
    SELECT s.run_id, s.requested_at
    FROM merged_wakes s
    WHERE s.organization_id = w.organization_id AND s.idempotency_key = w.idempotency_key
    OFFSET 0
) m ON true
