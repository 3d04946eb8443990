DELETE FROM isolated_wakes WHERE wake_id = $1 AND attempts = 1
