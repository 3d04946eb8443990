SELECT wake_id AS id, created_at < $2 AS prunable
FROM redrives
WHERE wake_id > $1
ORDER BY wake_id
LIMIT $3
