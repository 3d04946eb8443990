DELETE FROM run_events WHERE id = ANY ($1::bigint[])
