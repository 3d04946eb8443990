DELETE FROM redrives
WHERE wake_id = ANY ($1::uuid[]) AND created_at < $2
RETURNING wake_id
