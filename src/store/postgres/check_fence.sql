-- For a batch that moves nothing and writes nothing.
SELECT 1
FROM lanes
WHERE stream = $1 AND lane = $2 AND stream_created_at = $3 AND decided_sequence = $4
