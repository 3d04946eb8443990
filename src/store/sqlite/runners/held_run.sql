SELECT payload, cancel_requested_at, cancel_actor, cancel_reason
FROM runs
WHERE id = ?1 AND fencing_token = ?2 AND status IN ('claimed', 'running')
