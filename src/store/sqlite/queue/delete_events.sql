DELETE FROM run_events WHERE id IN (VALUES (?))
