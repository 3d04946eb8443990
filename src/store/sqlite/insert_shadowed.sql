INSERT INTO shadowed_wakes (wake_id, organization_id, task_id, reasons, record, requested_at)
SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?)) AS w WHERE column1 IS NOT NULL
