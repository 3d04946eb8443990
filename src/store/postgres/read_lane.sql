SELECT stream_created_at, decided_sequence, decided_instant
FROM lanes
WHERE stream = $1 AND lane = $2
