SELECT stream_created_at, decided_sequence, decided_instant, known_sequence
FROM lanes
WHERE stream = $1 AND lane = $2
