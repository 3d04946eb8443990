-- Only into what is still queued: a run that was claimed meanwhile is one row less. No join, which
-- statistics could turn round: the runs are found by their ids, and each then finds its place.
UPDATE runs r
SET coalesced_count = r.coalesced_count
        + ($2::integer[])[array_position($1::uuid[], r.id)],
    payload = ($3::text[])[array_position($1::uuid[], r.id)],
    task_id = ($4::text[])[array_position($1::uuid[], r.id)],
    task_unusable = ($5::boolean[])[array_position($1::uuid[], r.id)],
    actor_type = ($6::text[])[array_position($1::uuid[], r.id)],
    actor_id = ($7::text[])[array_position($1::uuid[], r.id)],
    -- A run that a person waits for does not lose its place to what joins it.
    queue_class = CASE
        WHEN ($8::boolean[])[array_position($1::uuid[], r.id)]
            OR queue_class(r.queue_class, r.producer, r.actor_type, r.reason) = 0
        THEN 0
        ELSE r.queue_class
    END
WHERE r.id = ANY ($1::uuid[]) AND r.status = 'queued'
