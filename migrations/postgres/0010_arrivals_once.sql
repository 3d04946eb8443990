-- The queue's rows of a batch are looked up once. Asking which of them are missing, in the statement
-- that had changed the others, cost more than the changes: it met two versions of each row on a full
-- page. Whether any is missing is known by how many were changed. And they are looked up one by one: a
-- plan that was made while the queue was empty, as it is every night, would walk all projects there are
-- since for each of a batch. LATERAL with a LIMIT leaves no other way, and with the queue locked a row
-- stays where it was found.

CREATE OR REPLACE FUNCTION queue_arrived() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    under_way bigint;
    waiting bigint;
    changed_projects bigint;
    claim bigint;
BEGIN
    DELETE FROM queue_arrivals a WHERE a.id = NEW.id;
    SELECT sum(n.queued), sum(n.active) INTO waiting, under_way
    FROM (SELECT unnest(NEW.queued) AS queued, unnest(NEW.active) AS active) n;
    -- From here on the queue is locked.
    UPDATE queue_platform p
    SET queued = p.queued + waiting, active = p.active + under_way
    WHERE p.singleton;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the row of queue_platform is gone';
    END IF;
    -- With the queue locked nobody else makes these rows, so they are changed, and those that are
    -- not there are made: ON CONFLICT would look at each twice.
    WITH changed AS (
        UPDATE queue_projects p
        SET queued = p.queued + a.queued,
            active = p.active + a.active,
            head_rank = CASE
                WHEN p.head_id IS NULL OR (a.head_rank, a.head_id) < (p.head_rank, p.head_id)
                THEN a.head_rank
                ELSE p.head_rank
            END,
            head_id = CASE
                WHEN p.head_id IS NULL OR (a.head_rank, a.head_id) < (p.head_rank, p.head_id)
                THEN a.head_id
                ELSE p.head_id
            END
        FROM (
            SELECT unnest(NEW.organization_ids) AS organization_id,
                   unnest(NEW.project_ids) AS project_id,
                   unnest(NEW.queued) AS queued,
                   unnest(NEW.active) AS active,
                   unnest(NEW.head_ranks) AS head_rank,
                   unnest(NEW.head_ids) AS head_id
        ) a
        CROSS JOIN LATERAL (
            SELECT q.ctid AS place
            FROM queue_projects q
            WHERE q.organization_id = a.organization_id AND q.project_id = a.project_id
            LIMIT 1
        ) f
        WHERE p.ctid = f.place
        RETURNING p.organization_id, a.queued, a.active, p.ready
    ), organizations AS MATERIALIZED (
        SELECT c.organization_id, count(*) AS projects, sum(c.queued) AS queued,
               sum(c.active) AS active, bool_or(c.ready) AS ready
        FROM changed c
        GROUP BY c.organization_id
    ), known AS (
        UPDATE queue_organizations o
        SET queued = o.queued + n.queued, active = o.active + n.active,
            ready = o.ready OR n.ready
        FROM organizations n
        CROSS JOIN LATERAL (
            SELECT q.ctid AS place
            FROM queue_organizations q
            WHERE q.organization_id = n.organization_id
            LIMIT 1
        ) f
        WHERE o.ctid = f.place
    )
    SELECT coalesce(sum(n.projects), 0) INTO changed_projects FROM organizations n;
    IF changed_projects < cardinality(NEW.project_ids) THEN
        WITH made AS (
            INSERT INTO queue_projects
                (organization_id, project_id, queued, active, head_rank, head_id)
            SELECT a.organization_id, a.project_id, a.queued, a.active, a.head_rank, a.head_id
            FROM (
                SELECT unnest(NEW.organization_ids) AS organization_id,
                       unnest(NEW.project_ids) AS project_id,
                       unnest(NEW.queued) AS queued,
                       unnest(NEW.active) AS active,
                       unnest(NEW.head_ranks) AS head_rank,
                       unnest(NEW.head_ids) AS head_id
            ) a
            WHERE (
                SELECT true
                FROM queue_projects p
                WHERE p.organization_id = a.organization_id AND p.project_id = a.project_id
                LIMIT 1
            ) IS NULL
            RETURNING organization_id, queued, active, ready
        )
        INSERT INTO queue_organizations AS o (organization_id, queued, active, ready)
        SELECT m.organization_id, sum(m.queued), sum(m.active), bool_or(m.ready)
        FROM made m
        GROUP BY m.organization_id
        ON CONFLICT (organization_id) DO UPDATE
        SET queued = o.queued + EXCLUDED.queued, active = o.active + EXCLUDED.active,
            ready = o.ready OR EXCLUDED.ready;
    END IF;
    -- What waits makes a project ready, or leaves it as it was; what is inserted under way may do the
    -- opposite.
    IF under_way > 0 THEN
        UPDATE queue_organizations o
        SET ready = EXISTS (
            SELECT FROM queue_projects p WHERE p.organization_id = o.organization_id AND p.ready
        )
        WHERE o.organization_id = ANY (NEW.organization_ids);
    END IF;
    -- Whoever inserted them says which room they claim, if any: nobody has to look for it.
    claim := nullif(current_setting('wakegate.room_claim', true), '');
    IF claim IS NOT NULL THEN
        PERFORM room_take(claim);
    END IF;
    RETURN NULL;
END $$;

-- As in 0009: replacing it made it the caller's again.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION queue_arrived() SECURITY DEFINER SET search_path = %I, pg_temp',
                   current_schema());
END $$;
