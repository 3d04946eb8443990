DELETE FROM shadowed_wakes WHERE wake_id IN (VALUES (?)) RETURNING wake_id
