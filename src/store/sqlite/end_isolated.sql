UPDATE isolated_wakes
SET attempts = attempts - 1
WHERE wake_id = ? AND attempts > 1
RETURNING attempts
