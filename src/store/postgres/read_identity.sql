-- LATERAL with a LIMIT keeps the wakes outside and the index inside, whatever statistics say.
SELECT 'queued' AS kind, f.id AS wake_id, f.id AS run_id, f.requested_at, f.decided_at,
       f.degraded_reason AS reason, NULL AS record
FROM unnest($1::uuid[]) AS w (id)
CROSS JOIN LATERAL (
    SELECT r.id, r.requested_at, r.decided_at, r.degraded_reason
    FROM runs r
    WHERE r.id = w.id
    LIMIT 1
) f
UNION ALL
SELECT 'coalesced', f.wake_id, f.run_id, f.requested_at, f.decided_at, NULL, NULL
FROM unnest($1::uuid[]) AS w (id)
CROSS JOIN LATERAL (
    SELECT m.wake_id, m.run_id, m.requested_at, m.decided_at
    FROM merged_wakes m
    WHERE m.wake_id = w.id
    LIMIT 1
) f
UNION ALL
SELECT 'refused', f.wake_id, NULL, f.requested_at, f.requested_at, f.reason, f.record
FROM unnest($1::uuid[]) AS w (id)
CROSS JOIN LATERAL (
    SELECT d.wake_id, d.requested_at, d.reason, d.record
    FROM refused_wakes d
    WHERE d.wake_id = w.id
    LIMIT 1
) f
