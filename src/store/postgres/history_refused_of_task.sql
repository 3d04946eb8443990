SELECT wake_id, organization_id, task_id, reason, record, requested_at
FROM refused_wakes
WHERE organization_id = $1 AND task_id = $2
ORDER BY requested_at DESC
LIMIT $3
