DELETE FROM redrives WHERE wake_id IN (VALUES (?)) AND created_at < ? RETURNING wake_id
