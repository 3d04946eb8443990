DELETE FROM shadowed_wakes
WHERE wake_id = ANY ($1::uuid[])
RETURNING wake_id
