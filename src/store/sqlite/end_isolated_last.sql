DELETE FROM isolated_wakes WHERE wake_id = ? AND attempts = 1
