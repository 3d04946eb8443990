-- Only into what is still queued: a run that was claimed meanwhile is one row less.
UPDATE runs r
SET coalesced_count = r.coalesced_count + j.joined,
    payload = j.payload,
    task_id = j.task_id,
    task_unusable = j.task_unusable,
    actor_type = j.actor_type,
    actor_id = j.actor_id
FROM unnest(
    $1::uuid[], $2::integer[], $3::text[], $4::text[], $5::boolean[], $6::text[], $7::text[]
) AS j (id, joined, payload, task_id, task_unusable, actor_type, actor_id)
WHERE r.id = j.id AND r.status = 'queued'
