UPDATE runs
SET status = CASE WHEN status = 'queued' THEN 'cancelled' ELSE status END,
    finished_at = CASE WHEN status = 'queued' THEN $6 ELSE finished_at END,
    cancel_requested_at = $6,
    cancel_actor = $4,
    cancel_reason = $5
WHERE id = $1
    AND ($2::text IS NULL OR organization_id = $2)
    AND ($3::text IS NULL OR actor_id = $3)
    AND (status = 'queued'
         OR status IN ('claimed', 'running') AND cancel_requested_at IS NULL AND $3::text IS NULL)
RETURNING status, cancel_requested_at
