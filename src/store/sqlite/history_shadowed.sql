WITH w (id) AS (VALUES (?))
SELECT s.wake_id, s.organization_id, s.task_id, s.reasons AS reason, s.record, s.requested_at
FROM w CROSS JOIN shadowed_wakes s ON s.wake_id = w.id
