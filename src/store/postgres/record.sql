-- All of a batch, in the order in which every lane takes its locks: the fence, keys in order of key,
-- merges. A row that is missing fails the statement, and with it everything. What was inserted reaches
-- the queue when the statement commits, and with it the room that is claimed; see migration 0009.
WITH fence AS (
    -- No row means that another worker has moved it.
    UPDATE lanes
    SET decided_sequence = $5, decided_instant = $6
    WHERE stream = $1 AND lane = $2 AND stream_created_at = $3 AND decided_sequence = $4
    RETURNING 1
), keys AS (
    -- No ON CONFLICT, which looks twice at each row: this waits for a rival that has not committed yet,
    -- and a key that is taken fails the statement.
    INSERT INTO wake_keys (organization_id, idempotency_key, run_id, requested_at)
    SELECT unnest($7::text[]), unnest($8::text[]), unnest($9::uuid[]), unnest($10::timestamptz[])
    RETURNING 1
), merged AS (
    INSERT INTO merged_wakes (
        wake_id, run_id, organization_id, idempotency_key, requested_at, decided_at,
        payload, actor_type, actor_id
    )
    SELECT unnest($11::uuid[]), unnest($12::uuid[]), unnest($13::text[]), unnest($14::text[]),
           unnest($15::timestamptz[]), unnest($16::timestamptz[]),
           unnest($17::text[]), unnest($18::text[]), unnest($19::text[])
    RETURNING 1
), refused AS (
    INSERT INTO refused_wakes (wake_id, organization_id, task_id, reason, record, requested_at)
    SELECT unnest($20::uuid[]), unnest($21::text[]), unnest($22::text[]), unnest($23::text[]),
           unnest($24::text[]), unnest($25::timestamptz[])
    RETURNING 1
), shadowed AS (
    INSERT INTO shadowed_wakes (wake_id, organization_id, task_id, reasons, record, requested_at)
    SELECT unnest($26::uuid[]), unnest($27::text[]), unnest($28::text[]), unnest($29::text[]),
           unnest($30::text[]), unnest($31::timestamptz[])
    RETURNING 1
), joined AS (
    -- Only into what is still queued: a run that was claimed meanwhile is one row less. No join, which
    -- statistics could turn round: the runs are found by their ids, and each then finds its place.
    UPDATE runs r
    SET coalesced_count = r.coalesced_count
            + ($33::integer[])[array_position($32::uuid[], r.id)],
        payload = ($34::text[])[array_position($32::uuid[], r.id)],
        task_id = ($35::text[])[array_position($32::uuid[], r.id)],
        task_unusable = ($36::boolean[])[array_position($32::uuid[], r.id)],
        actor_type = ($37::text[])[array_position($32::uuid[], r.id)],
        actor_id = ($38::text[])[array_position($32::uuid[], r.id)],
        -- A run that a person waits for does not lose its place to what joins it.
        queue_class = CASE
            WHEN ($39::boolean[])[array_position($32::uuid[], r.id)]
                OR queue_class(r.queue_class, r.producer, r.actor_type, r.reason) = 0
            THEN 0
            ELSE r.queue_class
        END
    WHERE r.id = ANY ($32::uuid[]) AND r.status = 'queued'
    RETURNING 1
), inserted AS (
    -- One unnest a column in the SELECT list: in FROM each would be kept as a table of its own first.
    INSERT INTO runs (
        id, organization_id, project_id, agent_profile_id, reason, idempotency_key, coalesced_count,
        degraded_reason, producer, traceparent, requested_at, decided_at, expires_at,
        payload, task_id, task_unusable, actor_type, actor_id, queue_class
    )
    SELECT unnest($40::uuid[]), unnest($41::text[]), unnest($42::text[]), unnest($43::text[]),
           unnest($44::text[]), unnest($45::text[]), unnest($46::integer[]),
           unnest($47::text[]), unnest($48::text[]), unnest($49::text[]),
           unnest($50::timestamptz[]), unnest($51::timestamptz[]), unnest($52::timestamptz[]),
           unnest($53::text[]), unnest($54::text[]), unnest($55::boolean[]), unnest($56::text[]),
           unnest($57::text[]), unnest($58::smallint[])
    RETURNING 1
), claimed AS (
    INSERT INTO room_claims (
        queued_max, organization_ids, queued_organization_max, queued_project_max, project_places,
        project_ids, intake_organization_ids, intake_producers, intake_slots, intake_admitted,
        intake_max
    )
    SELECT $59, $60, $61, $62, $63, $64, $65, $66, $67, $68, $69
    WHERE cardinality($60::text[]) > 0
    RETURNING id
)
-- In this order, for each part is written when its count is asked for.
SELECT CASE
    WHEN (SELECT count(*) FROM fence) <> 1 THEN record_refused('WGR02', 'the lane')
    WHEN (SELECT count(*) FROM keys) <> cardinality($7::text[])
        OR (SELECT count(*) FROM merged) <> cardinality($11::uuid[])
        OR (SELECT count(*) FROM refused) <> cardinality($20::uuid[])
        OR (SELECT count(*) FROM shadowed) <> cardinality($26::uuid[])
    THEN record_refused('WGR04', 'a row')
    WHEN (SELECT count(*) FROM joined) <> cardinality($32::uuid[])
    THEN record_refused('WGR03', 'a run that was queued')
    WHEN (SELECT count(*) FROM inserted) <> cardinality($40::uuid[])
    THEN record_refused('WGR04', 'a row')
    ELSE set_config('wakegate.room_claim', coalesce((SELECT c.id::text FROM claimed c), ''), true)
        IS NULL
END,
-- Whether the commit itself waits until it is on disk.
CASE WHEN $70
    THEN set_config('synchronous_commit', current_setting('wakegate.synchronous_commit'), true)
END
