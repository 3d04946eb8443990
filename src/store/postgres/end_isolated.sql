UPDATE isolated_wakes
SET attempts = attempts - 1
WHERE wake_id = $1 AND attempts > 1
RETURNING attempts
