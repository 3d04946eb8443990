SELECT f.wake_id, f.reasons, f.record
FROM unnest($1::uuid[]) AS w (id)
CROSS JOIN LATERAL (
    SELECT s.wake_id, s.reasons, s.record
    FROM shadowed_wakes s
    WHERE s.wake_id = w.id
    LIMIT 1
) f
