-- A merge's key is in wake_keys as well, so merges are looked up only for keys that are known: in
-- the common case, a new key, one probe.
SELECT w.position, k.run_id, k.requested_at, m.run_id AS merged_run_id,
       m.requested_at AS merged_at
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY
    AS w (organization_id, idempotency_key, position)
JOIN wake_keys k
    ON k.organization_id = w.organization_id AND k.idempotency_key = w.idempotency_key
LEFT JOIN merged_wakes m
    ON m.organization_id = k.organization_id AND m.idempotency_key = k.idempotency_key
