-- Insertions reach the queue when their transaction commits. Before, a lane kept the queue locked from
-- its insertion on, while it asked for room and committed, and every answer had to travel to the worker
-- and back meanwhile. Now the queue is locked within the commit only. Rows of these two tables live as
-- long as their transaction: nobody but it ever sees one.

-- What a statement inserted, one element for each project.
CREATE UNLOGGED TABLE queue_arrivals (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organization_ids text[] COLLATE "C" NOT NULL,
    project_ids text[] COLLATE "C" NOT NULL,
    queued bigint[] NOT NULL,
    active bigint[] NOT NULL,
    head_ranks bigint[] NOT NULL,
    head_ids uuid[] NOT NULL
);

-- What a batch of decisions takes of the room, and under which limits; without `queued_max` they bind
-- nobody. What is over one fails the commit with SQLSTATE WGR01, and the boundary as message.
CREATE UNLOGGED TABLE room_claims (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queued_max bigint,
    organization_ids text[] COLLATE "C" NOT NULL,
    queued_organization_max bigint[] NOT NULL,
    queued_project_max bigint[] NOT NULL,
    -- Of each project the place of its organization.
    project_places integer[] NOT NULL,
    project_ids text[] COLLATE "C" NOT NULL,
    -- Admitted wakes by slot.
    intake_organization_ids text[] COLLATE "C" NOT NULL,
    intake_producers text[] COLLATE "C" NOT NULL,
    intake_slots timestamptz[] NOT NULL,
    intake_admitted bigint[] NOT NULL,
    intake_max bigint[] NOT NULL
);

-- They are read once and deleted: not worth compressing.
ALTER TABLE queue_arrivals
    ALTER organization_ids SET STORAGE EXTERNAL,
    ALTER project_ids SET STORAGE EXTERNAL,
    ALTER queued SET STORAGE EXTERNAL,
    ALTER active SET STORAGE EXTERNAL,
    ALTER head_ranks SET STORAGE EXTERNAL,
    ALTER head_ids SET STORAGE EXTERNAL;
ALTER TABLE room_claims
    ALTER organization_ids SET STORAGE EXTERNAL,
    ALTER queued_organization_max SET STORAGE EXTERNAL,
    ALTER queued_project_max SET STORAGE EXTERNAL,
    ALTER project_places SET STORAGE EXTERNAL,
    ALTER project_ids SET STORAGE EXTERNAL,
    ALTER intake_organization_ids SET STORAGE EXTERNAL,
    ALTER intake_producers SET STORAGE EXTERNAL,
    ALTER intake_slots SET STORAGE EXTERNAL,
    ALTER intake_admitted SET STORAGE EXTERNAL,
    ALTER intake_max SET STORAGE EXTERNAL;

CREATE OR REPLACE FUNCTION queue_runs_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO queue_arrivals
        (organization_ids, project_ids, queued, active, head_ranks, head_ids)
    SELECT array_agg(a.organization_id), array_agg(a.project_id), array_agg(a.queued),
           array_agg(a.active), array_agg(a.head_rank), array_agg(a.head_id)
    FROM (
        SELECT r.organization_id, r.project_id,
               count(*) FILTER (WHERE r.is_queued) AS queued,
               count(*) FILTER (WHERE NOT r.is_queued) AS active,
               min(r.queue_rank) FILTER (WHERE r.is_queued) AS head_rank,
               (array_agg(r.id ORDER BY r.queue_rank, r.id) FILTER (WHERE r.is_queued))[1]
                   AS head_id
        FROM (
            SELECT i.id, i.organization_id, coalesce(i.project_id, '') AS project_id,
                   i.status = 'queued' AS is_queued,
                   queue_rank(i.queue_class, i.producer, i.actor_type, i.reason, i.requested_at)
                       AS queue_rank
            FROM inserted i
            WHERE i.status IN ('queued', 'claimed', 'running')
        ) r
        GROUP BY r.organization_id, r.project_id
    ) a
    HAVING count(*) > 0;
    RETURN NULL;
END $$;

CREATE FUNCTION queue_arrived() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    under_way bigint;
    waiting bigint;
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
    WITH added AS MATERIALIZED (
        SELECT unnest(NEW.organization_ids) AS organization_id,
               unnest(NEW.project_ids) AS project_id,
               unnest(NEW.queued) AS queued,
               unnest(NEW.active) AS active,
               unnest(NEW.head_ranks) AS head_rank,
               unnest(NEW.head_ids) AS head_id
    ), changed AS (
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
        FROM added a
        WHERE p.organization_id = a.organization_id AND p.project_id = a.project_id
        RETURNING p.organization_id, p.ready
    ), made AS (
        INSERT INTO queue_projects
            (organization_id, project_id, queued, active, head_rank, head_id)
        SELECT a.organization_id, a.project_id, a.queued, a.active, a.head_rank, a.head_id
        FROM added a
        WHERE NOT EXISTS (
            SELECT FROM queue_projects p
            WHERE p.organization_id = a.organization_id AND p.project_id = a.project_id
        )
        RETURNING organization_id, ready
    ), organizations AS MATERIALIZED (
        SELECT n.organization_id, sum(n.queued) AS queued, sum(n.active) AS active,
               bool_or(n.ready) AS ready
        FROM (
            SELECT a.organization_id, a.queued, a.active, false AS ready FROM added a
            UNION ALL
            SELECT c.organization_id, 0, 0, c.ready FROM changed c
            UNION ALL
            SELECT m.organization_id, 0, 0, m.ready FROM made m
        ) n
        GROUP BY n.organization_id
    ), known AS (
        UPDATE queue_organizations o
        SET queued = o.queued + n.queued, active = o.active + n.active,
            ready = o.ready OR n.ready
        FROM organizations n
        WHERE o.organization_id = n.organization_id
    )
    INSERT INTO queue_organizations (organization_id, queued, active, ready)
    SELECT n.organization_id, n.queued, n.active, n.ready
    FROM organizations n
    WHERE NOT EXISTS (
        SELECT FROM queue_organizations o WHERE o.organization_id = n.organization_id
    );
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

CREATE CONSTRAINT TRIGGER queue_arrived AFTER INSERT ON queue_arrivals
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION queue_arrived();

-- What this transaction has inserted arrives before anything else happens to the queue.
CREATE OR REPLACE FUNCTION queue_lock() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    SET CONSTRAINTS queue_arrived IMMEDIATE;
    PERFORM FROM queue_platform p WHERE p.singleton FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the row of queue_platform is gone';
    END IF;
END $$;

-- Counts what a batch admits, and holds what is there with the batch included against its limits. With
-- the queue locked.
CREATE FUNCTION room_take(claim bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    claimed room_claims;
    crowded integer[];
    taken text;
BEGIN
    DELETE FROM room_claims c WHERE c.id = claim RETURNING c.* INTO claimed;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    INSERT INTO intake_slots AS s (organization_id, producer, slot_at, admitted)
    SELECT unnest(claimed.intake_organization_ids), unnest(claimed.intake_producers),
           unnest(claimed.intake_slots), unnest(claimed.intake_admitted)
    ON CONFLICT (organization_id, producer, slot_at) DO UPDATE
    SET admitted = s.admitted + EXCLUDED.admitted;
    IF claimed.queued_max IS NULL THEN
        RETURN;
    END IF;

    SELECT CASE WHEN bool_or(q.queued > w.queued_max) THEN 'queued_runs.organization' END,
           array_agg(w.place) FILTER (WHERE q.queued > w.queued_project_max)
    INTO taken, crowded
    FROM (
        SELECT generate_subscripts(claimed.organization_ids, 1) AS place,
               unnest(claimed.organization_ids) AS organization_id,
               unnest(claimed.queued_organization_max) AS queued_max,
               unnest(claimed.queued_project_max) AS queued_project_max
    ) w
    CROSS JOIN LATERAL (
        SELECT s.queued FROM queue_organizations s
        WHERE s.organization_id = w.organization_id
        LIMIT 1
    ) q;
    IF EXISTS (SELECT FROM queue_platform p WHERE p.singleton AND p.queued > claimed.queued_max) THEN
        taken := 'queued_runs.platform';
    END IF;
    -- In the other organizations no project can be over its limit.
    IF taken IS NULL AND crowded IS NOT NULL AND EXISTS (
        SELECT FROM (
            SELECT unnest(claimed.project_places) AS place, unnest(claimed.project_ids) AS project_id
        ) w
        CROSS JOIN LATERAL (
            SELECT FROM queue_projects s
            WHERE s.organization_id = (claimed.organization_ids)[w.place]
                AND s.project_id = w.project_id
                AND s.queued > (claimed.queued_project_max)[w.place]
            LIMIT 1
        ) q
        WHERE w.place = ANY (crowded)
    ) THEN
        taken := 'queued_runs.project';
    END IF;
    -- The busiest of the six minutes that a slot lies in.
    IF taken IS NULL AND EXISTS (
        SELECT FROM (
            SELECT unnest(claimed.intake_organization_ids) AS organization_id,
                   unnest(claimed.intake_producers) AS producer,
                   unnest(claimed.intake_slots) AS slot_at, unnest(claimed.intake_max) AS admitted_max
        ) w
        CROSS JOIN LATERAL (
            SELECT array_agg(s.slot_at) AS slots, array_agg(s.admitted) AS admitted,
                   sum(s.admitted) AS all_admitted
            FROM intake_slots s
            WHERE s.organization_id = w.organization_id AND s.producer = w.producer
                AND s.slot_at BETWEEN w.slot_at - interval '50 seconds'
                    AND w.slot_at + interval '50 seconds'
            OFFSET 0
        ) n
        WHERE n.all_admitted > w.admitted_max AND EXISTS (
            SELECT FROM generate_series(0, 5) AS later
            WHERE (
                SELECT sum(m.admitted)
                FROM (SELECT unnest(n.slots) AS slot_at, unnest(n.admitted) AS admitted) m
                WHERE m.slot_at BETWEEN w.slot_at - (5 - later) * interval '10 seconds'
                    AND w.slot_at + later * interval '10 seconds'
            ) > w.admitted_max
        )
    ) THEN
        taken := 'intake';
    END IF;
    IF taken IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'WGR01', MESSAGE = taken;
    END IF;
END $$;

-- Undoes the statement that asks for it.
CREATE FUNCTION record_refused(code text, what text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = what;
END $$;

-- As in 0004: whoever may write runs keeps the queue by that.
DO $$
DECLARE
    function text;
BEGIN
    FOREACH function IN ARRAY ARRAY['queue_runs_inserted()', 'queue_arrived()', 'room_take(bigint)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp',
                       function, current_schema());
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', function);
    END LOOP;
END $$;
