SELECT stream_created_at, decided_sequence, decided_instant, known_sequence
FROM lanes
WHERE stream = ? AND lane = ?
