INSERT INTO refused_wakes (wake_id, organization_id, task_id, reason, record, requested_at)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (wake_id) DO NOTHING
