-- How full the queue is, what organizations have lowered, and what was admitted lately, all at once.
-- Projects only of organizations that have so many queued runs that one of their projects may be full
-- with $9 more; of all of them where $8, the platform's limit for a project, is null.
WITH organizations AS MATERIALIZED (
    SELECT w.position, w.organization_id, q.queued, q.drained, l.limits,
           $8::bigint IS NULL
               OR q.queued + $9::bigint > least($8::bigint, l.queued_project_max) AS is_crowded
    FROM (
        SELECT generate_subscripts($1::text[], 1) AS position,
               unnest($1::text[]) AS organization_id
    ) w
    LEFT JOIN LATERAL (
        SELECT s.queued, drained_lately(s.drain_minute, s.drained, s.drained_before) AS drained
        FROM queue_organizations s
        WHERE s.organization_id = w.organization_id
        LIMIT 1
    ) q ON true
    LEFT JOIN LATERAL (
        SELECT s.queued_runs_project_max AS queued_project_max,
               ARRAY[s.queued_runs_max, s.queued_runs_project_max, s.waiting_seconds_max,
                     s.active_runs_max, s.intake_events_per_minute_max, s.event_bytes_max] AS limits
        FROM organization_limits s
        WHERE s.organization_id = w.organization_id
        LIMIT 1
    ) l ON true
), crowded AS MATERIALIZED (
    SELECT array_agg(o.organization_id) AS organization_ids
    FROM organizations o
    WHERE o.is_crowded
)
SELECT 'platform' AS boundary, 0 AS position, p.queued AS depth,
       drained_lately(p.drain_minute, p.drained, p.drained_before) AS drained, drain_millis() AS millis,
       NULL::timestamptz AS slot_at, NULL::bigint[] AS limits
FROM queue_platform p
WHERE p.singleton
UNION ALL
SELECT 'organization', o.position, o.queued, o.drained, drain_millis(), NULL, o.limits
FROM organizations o
WHERE o.queued IS NOT NULL OR o.limits IS NOT NULL
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
WHERE (SELECT c.organization_ids FROM crowded c) IS NOT NULL
    AND w.organization_id = ANY ((SELECT c.organization_ids FROM crowded c)::text[])
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
