INSERT INTO isolated_wakes (wake_id, stream, lane)
VALUES ($1, $2, $3)
ON CONFLICT (wake_id) DO UPDATE
SET attempts = isolated_wakes.attempts + 1, started_at = now()
RETURNING attempts - 1
