-- How full the queue is, what organizations have lowered, and what was admitted lately, all at once.
SELECT 'platform' AS kind, 0 AS position, p.queued AS depth,
       drained_lately(p.drain_minute, p.drained, p.drained_before) AS drained, drain_millis() AS millis,
       NULL::timestamptz AS slot_at, NULL::bigint[] AS limits
FROM queue_platform p
WHERE p.singleton
UNION ALL
SELECT 'organization', w.position, q.queued,
       drained_lately(q.drain_minute, q.drained, q.drained_before), drain_millis(), NULL, NULL
FROM (
    SELECT generate_subscripts($1::text[], 1) AS position,
           unnest($1::text[]) AS organization_id
) w
CROSS JOIN LATERAL (
    SELECT s.queued, s.drain_minute, s.drained, s.drained_before
    FROM queue_organizations s
    WHERE s.organization_id = w.organization_id
    LIMIT 1
) q
UNION ALL
SELECT 'limits', w.position, 0, 0, 0, NULL, l.limits
FROM (
    SELECT generate_subscripts($1::text[], 1) AS position,
           unnest($1::text[]) AS organization_id
) w
CROSS JOIN LATERAL (
    SELECT ARRAY[s.queued_runs_max, s.queued_runs_project_max, s.waiting_seconds_max,
                 s.active_runs_max, s.intake_events_per_minute_max, s.event_bytes_max] AS limits
    FROM organization_limits s
    WHERE s.organization_id = w.organization_id
    LIMIT 1
) l
UNION ALL
SELECT 'project', w.position, q.queued, 0, 0, NULL, NULL
FROM (
    SELECT generate_subscripts($2::text[], 1) AS position,
           unnest($2::text[]) AS organization_id,
           unnest($3::text[]) AS project_id
) w
CROSS JOIN LATERAL (
    SELECT s.queued
    FROM queue_projects s
    WHERE s.organization_id = w.organization_id AND s.project_id = w.project_id
    LIMIT 1
) q
UNION ALL
SELECT 'intake', w.position, i.admitted, 0, 0, i.slot_at, NULL
FROM (
    SELECT generate_subscripts($4::text[], 1) AS position,
           unnest($4::text[]) AS organization_id,
           unnest($5::text[]) AS producer,
           unnest($6::timestamptz[]) AS first,
           unnest($7::timestamptz[]) AS last
) w
CROSS JOIN LATERAL (
    SELECT s.admitted, s.slot_at
    FROM intake_slots s
    WHERE s.organization_id = w.organization_id
        AND s.producer = w.producer
        AND s.slot_at BETWEEN w.first AND w.last
    -- Keeps the look-up from being turned round into a walk over all slots.
    OFFSET 0
) i
