-- Only into what is still queued: a run that was claimed meanwhile is one row less.
WITH j (id, joined, awaited, payload, task_id, task_unusable, actor_type, actor_id)
    AS (VALUES (?, ?, ?, ?, ?, ?, ?, ?))
UPDATE runs
SET coalesced_count = runs.coalesced_count + j.joined,
    payload = j.payload,
    task_id = j.task_id,
    task_unusable = j.task_unusable,
    actor_type = j.actor_type,
    actor_id = j.actor_id,
    -- A run that a person waits for does not lose its place to what joins it; theirs are the ranks
    -- before the instant of the request.
    queue_class = iif(j.awaited OR runs.queue_rank < runs.requested_at, 0, runs.queue_class)
FROM j
-- The plus keeps the index of the queue out: with statistics of a queue that was empty, walking all of it
-- looks cheaper than looking up each run.
WHERE runs.id = j.id AND +runs.status = 'queued'
