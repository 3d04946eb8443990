-- A new lane, or one whose stream was created anew, starts at the stream's start. A rival that did
-- the same meanwhile is left alone: then no row comes back, and the lane is read again.
INSERT INTO lanes (stream, lane, stream_created_at, decided_sequence, decided_instant)
VALUES (?, ?, ?, 0, 0)
ON CONFLICT (stream, lane) DO UPDATE
SET stream_created_at = excluded.stream_created_at,
    decided_sequence = 0,
    known_sequence = max(lanes.known_sequence, lanes.decided_sequence),
    decided_instant = excluded.decided_instant
WHERE lanes.stream_created_at <> excluded.stream_created_at
RETURNING stream_created_at, decided_sequence, decided_instant, known_sequence
