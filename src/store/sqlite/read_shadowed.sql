WITH w (id) AS (VALUES (?))
SELECT s.wake_id, s.reasons, s.record
FROM w CROSS JOIN shadowed_wakes s ON s.wake_id = w.id
