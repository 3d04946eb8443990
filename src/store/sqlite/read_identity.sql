WITH w (id) AS (VALUES (?))
SELECT 'queued' AS kind, r.id AS wake_id, r.id AS run_id, r.requested_at, r.decided_at,
       r.degraded_reason AS reason, NULL AS record
FROM w CROSS JOIN runs r ON r.id = w.id
UNION ALL
SELECT 'coalesced', m.wake_id, m.run_id, m.requested_at, m.decided_at, NULL, NULL
FROM w CROSS JOIN merged_wakes m ON m.wake_id = w.id
UNION ALL
SELECT 'refused', f.wake_id, NULL, f.requested_at, f.requested_at, f.reason, f.record
FROM w CROSS JOIN refused_wakes f ON f.wake_id = w.id
