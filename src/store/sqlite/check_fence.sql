-- For a batch that moves nothing and writes nothing.
SELECT 1
FROM lanes
WHERE stream = ? AND lane = ? AND stream_created_at = ? AND decided_sequence = ?
