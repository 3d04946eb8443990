SELECT wake_id, organization_id, task_id, reasons AS reason, record, requested_at
FROM shadowed_wakes
WHERE wake_id = $1
