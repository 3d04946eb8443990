-- The fence: no row means that another worker has moved it.
UPDATE lanes
SET decided_sequence = ?, decided_instant = ?
WHERE stream = ? AND lane = ? AND stream_created_at = ? AND decided_sequence = ?
