UPDATE redrives
SET published_at = $3, published_sequence = $4, published_wake_id = $5
WHERE wake_id = $1 AND ordinal = $2 AND published_at IS NULL
RETURNING ordinal
