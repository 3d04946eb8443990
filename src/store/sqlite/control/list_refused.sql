SELECT wake_id, organization_id, task_id, reason, record, requested_at
FROM refused_wakes
WHERE wake_id >= ?1
ORDER BY wake_id
LIMIT ?2
