DELETE FROM refused_wakes WHERE wake_id IN (VALUES (?)) RETURNING wake_id
