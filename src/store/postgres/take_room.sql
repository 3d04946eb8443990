-- Counts what a batch admits, and names the first boundary that is exceeded with the batch's own runs
-- among what is queued; 'intake' is near its limit, or over it, and has to be looked at slot by slot.
-- Maxima that are null bind nobody. One statement, for the queue is locked meanwhile.
WITH counted AS (
    INSERT INTO intake_slots AS s (organization_id, producer, slot_at, admitted)
    SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::timestamptz[]), unnest($4::bigint[])
    ON CONFLICT (organization_id, producer, slot_at) DO UPDATE
    SET admitted = s.admitted + EXCLUDED.admitted
), organizations AS MATERIALIZED (
    SELECT w.position, q.queued, w.queued_max, w.queued_project_max
    FROM (
        SELECT generate_subscripts($7::text[], 1) AS position,
               unnest($7::text[]) AS organization_id,
               unnest($8::bigint[]) AS queued_max,
               unnest($9::bigint[]) AS queued_project_max
    ) w
    CROSS JOIN LATERAL (
        SELECT s.queued FROM queue_organizations s
        WHERE s.organization_id = w.organization_id
        LIMIT 1
    ) q
), crowded AS MATERIALIZED (
    -- In the others no project can be over its limit.
    SELECT array_agg(o.position) AS positions FROM organizations o
    WHERE o.queued > o.queued_project_max
)
SELECT CASE
    WHEN EXISTS (SELECT FROM queue_platform p WHERE p.singleton AND p.queued > $6::bigint)
        THEN 'platform'
    WHEN EXISTS (SELECT FROM organizations o WHERE o.queued > o.queued_max)
        THEN 'organization'
    WHEN EXISTS (
        SELECT FROM (
            SELECT unnest($10::integer[]) AS position, unnest($11::text[]) AS project_id
        ) w
        CROSS JOIN LATERAL (
            SELECT FROM queue_projects s
            WHERE s.organization_id = ($7::text[])[w.position] AND s.project_id = w.project_id
                AND s.queued > ($9::bigint[])[w.position]
            LIMIT 1
        ) q
        WHERE (SELECT c.positions FROM crowded c) IS NOT NULL
            AND w.position = ANY ((SELECT c.positions FROM crowded c)::integer[])
    ) THEN 'project'
    WHEN EXISTS (
        SELECT FROM (
            SELECT unnest($1::text[]) AS organization_id, unnest($2::text[]) AS producer,
                   unnest($3::timestamptz[]) AS slot_at, unnest($5::bigint[]) AS others_max
        ) w
        CROSS JOIN LATERAL (
            -- Of before this batch: what it counts itself is no part of it.
            SELECT sum(s.admitted) AS others FROM intake_slots s
            WHERE s.organization_id = w.organization_id AND s.producer = w.producer
                AND s.slot_at BETWEEN w.slot_at - interval '50 seconds'
                    AND w.slot_at + interval '50 seconds'
            OFFSET 0
        ) i
        WHERE coalesce(i.others, 0) > w.others_max
    ) THEN 'intake'
END AS boundary
