SELECT f.wake_id, f.organization_id, f.task_id, f.reason, f.record, f.requested_at
FROM unnest($1::uuid[]) AS w (id)
CROSS JOIN LATERAL (
    SELECT s.wake_id, s.organization_id, s.task_id, s.reasons AS reason, s.record, s.requested_at
    FROM shadowed_wakes s
    WHERE s.wake_id = w.id
    LIMIT 1
) f
