SELECT wake_id AS id, requested_at < $2 AS prunable
FROM shadowed_wakes
WHERE wake_id > $1
ORDER BY wake_id
LIMIT $3
