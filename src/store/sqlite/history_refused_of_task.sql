SELECT wake_id, organization_id, task_id, reason, record, requested_at
FROM refused_wakes
WHERE organization_id = ? AND task_id = ?
ORDER BY requested_at DESC
LIMIT ?
