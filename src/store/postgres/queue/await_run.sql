-- Waits for whoever holds the run, and lets go at once.
SELECT id FROM runs WHERE id = $1 FOR SHARE
