-- The fence: no row means that another worker has moved it.
UPDATE lanes
SET decided_sequence = $5, decided_instant = $6
WHERE stream = $1 AND lane = $2 AND stream_created_at = $3 AND decided_sequence = $4
