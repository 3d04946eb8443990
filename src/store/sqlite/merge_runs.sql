-- Only into what is still queued: a run that was claimed meanwhile is one row less.
WITH j (id, joined, payload, task_id, task_unusable, actor_type, actor_id)
    AS (VALUES (?, ?, ?, ?, ?, ?, ?))
UPDATE runs
SET coalesced_count = runs.coalesced_count + j.joined,
    payload = j.payload,
    task_id = j.task_id,
    task_unusable = j.task_unusable,
    actor_type = j.actor_type,
    actor_id = j.actor_id
FROM j
WHERE runs.id = j.id AND runs.status = 'queued'
