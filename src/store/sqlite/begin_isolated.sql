INSERT INTO isolated_wakes (wake_id, stream, lane)
VALUES (?, ?, ?)
ON CONFLICT (wake_id) DO UPDATE
SET attempts = isolated_wakes.attempts + 1,
    started_at = CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER)
RETURNING attempts - 1
