-- The queue: which run is next, how many wait and how many are under way. It is kept by triggers on
-- `runs`, so that nobody who writes runs can put it out of step. docs/queue.md tells the rules.
--
-- The one row of `queue_platform` is the queue's lock. Whoever holds it waits for no other row: rows
-- of `runs` are locked before it, or not waited for. So the queue has no deadlocks of its own.

ALTER TABLE runs
    -- The best class that any of its wakes had, where that is not what the row says now.
    ADD COLUMN queue_class smallint
        CHECK (queue_class BETWEEN 0 AND 3),
    -- Latest instant at which it may still be started; null is never too late.
    ADD COLUMN expires_at timestamptz,
    ADD COLUMN runner_id text COLLATE "C"
        CHECK (octet_length(runner_id) BETWEEN 1 AND 256),
    -- The request that claimed it, by which that request can be repeated.
    ADD COLUMN claim_id uuid,
    -- Grows with each claim; what a runner holds is good for the claim it came with only.
    ADD COLUMN fencing_token bigint NOT NULL DEFAULT 0
        CHECK (fencing_token >= 0),
    -- Null of a run that was claimed without a lease, which never lapses.
    ADD COLUMN lease_expires_at timestamptz,
    ADD COLUMN started_at timestamptz,
    ADD COLUMN ended_reason text
        CHECK (octet_length(ended_reason) BETWEEN 1 AND 1024),
    ADD COLUMN cancel_requested_at timestamptz,
    ADD COLUMN cancel_actor text COLLATE "C"
        CHECK (octet_length(cancel_actor) BETWEEN 1 AND 256),
    ADD COLUMN cancel_reason text
        CHECK (octet_length(cancel_reason) BETWEEN 1 AND 1024);

-- 0 a person waits for it, 1 recovery, 2 an event, 3 periodic.
CREATE FUNCTION queue_class(kept smallint, producer text, actor_type text, reason text)
RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN coalesce(kept, CASE
    WHEN producer = 'recovery_sweep' THEN 1
    WHEN actor_type = 'user' THEN 0
    WHEN reason IN ('heartbeat', 'periodic', 'routine', 'scheduled') THEN 3
    ELSE 2
END::smallint);

-- The place within a project's queue, the least first: the request instant in microseconds, later by
-- a constant for each class. Those of people come before all others whatever their age.
CREATE FUNCTION queue_rank(
    kept smallint, producer text, actor_type text, reason text, requested_at timestamptz
)
RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (date_part('epoch', requested_at - '1970-01-01 00:00:00+00'::timestamptz) * 1000000)::bigint
    + CASE queue_class(kept, producer, actor_type, reason)
        WHEN 0 THEN -4000000000000000000
        WHEN 1 THEN 0
        WHEN 2 THEN 120000000
        ELSE 600000000
    END;

-- No token is negative. It is here so that a statement which asks for some queued run by its id cannot
-- have this index, which while it is small looks as good as the primary key: only the view can.
CREATE INDEX runs_queue ON runs (
    organization_id,
    coalesce(project_id, ''),
    queue_rank(queue_class, producer, actor_type, reason, requested_at),
    id
) WHERE status = 'queued' AND fencing_token >= 0;

CREATE INDEX runs_expiring ON runs (expires_at)
    WHERE status = 'queued' AND expires_at IS NOT NULL;
CREATE INDEX runs_leased ON runs (status, lease_expires_at)
    WHERE status IN ('claimed', 'running') AND lease_expires_at IS NOT NULL;
CREATE INDEX runs_cancelling ON runs (cancel_requested_at)
    WHERE status IN ('claimed', 'running') AND cancel_requested_at IS NOT NULL;
CREATE INDEX runs_claims ON runs (claim_id)
    WHERE status = 'claimed' AND claim_id IS NOT NULL;

CREATE VIEW queued_runs AS
    SELECT organization_id,
           coalesce(project_id, '') AS project_id,
           queue_rank(queue_class, producer, actor_type, reason, requested_at) AS queue_rank,
           id
    FROM runs
    WHERE status = 'queued' AND fencing_token >= 0;

-- Rows are updated in place as long as no index sees a difference, hence the room on the pages and
-- the columns that say no more than the indices need.

CREATE TABLE queue_platform (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    queued bigint NOT NULL DEFAULT 0 CHECK (queued >= 0),
    active bigint NOT NULL DEFAULT 0 CHECK (active >= 0),
    -- How far those have been served that were served least: an organization that comes back starts
    -- from here, and not from what it did not use.
    served bigint NOT NULL DEFAULT 0 CHECK (served >= 0)
) WITH (fillfactor = 10);

CREATE TABLE queue_organizations (
    organization_id text COLLATE "C" PRIMARY KEY
        CHECK (octet_length(organization_id) <= 256),
    queued bigint NOT NULL DEFAULT 0 CHECK (queued >= 0),
    active bigint NOT NULL DEFAULT 0 CHECK (active >= 0),
    -- Whether one of its projects has a run that could be started.
    ready boolean NOT NULL DEFAULT false,
    paused boolean NOT NULL DEFAULT false,
    -- The organization's own ceiling; the platform's holds besides.
    active_max bigint CHECK (active_max >= 0),
    weight integer NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 1000),
    -- Grows with each claim by a millionth part of its weight's.
    served bigint NOT NULL DEFAULT 0 CHECK (served >= 0),
    share bigint GENERATED ALWAYS AS (active * 1000000000 / weight) STORED,
    startable boolean GENERATED ALWAYS AS (
        ready AND NOT paused AND (active_max IS NULL OR active < active_max)
    ) STORED
) WITH (fillfactor = 50);

CREATE INDEX queue_organizations_next ON queue_organizations (share, served, organization_id)
    WHERE startable;

-- A row for each project with something queued or under way; '' is for runs without a project,
-- which do not exclude each other.
CREATE TABLE queue_projects (
    organization_id text COLLATE "C" NOT NULL
        CHECK (octet_length(organization_id) <= 256),
    project_id text COLLATE "C" NOT NULL
        CHECK (octet_length(project_id) <= 256),
    queued bigint NOT NULL DEFAULT 0 CHECK (queued >= 0),
    active bigint NOT NULL DEFAULT 0 CHECK (active >= 0),
    -- The first of its queue; while a statement that changes many runs is being followed, it may be
    -- ahead of the count.
    head_rank bigint,
    head_id uuid,
    ready boolean GENERATED ALWAYS AS (queued > 0 AND (project_id = '' OR active = 0)) STORED,
    PRIMARY KEY (organization_id, project_id),
    CHECK ((head_id IS NULL) = (head_rank IS NULL))
) WITH (fillfactor = 50);

CREATE INDEX queue_projects_next ON queue_projects (organization_id, head_rank, head_id)
    WHERE ready;

-- What an organization has set for itself: the lower of this and the platform's holds, null leaves
-- the platform's, 0 is none.
CREATE TABLE organization_limits (
    organization_id text COLLATE "C" PRIMARY KEY
        CHECK (octet_length(organization_id) <= 256),
    queued_runs_max bigint CHECK (queued_runs_max >= 0),
    queued_runs_project_max bigint CHECK (queued_runs_project_max >= 0),
    waiting_seconds_max bigint CHECK (waiting_seconds_max >= 0),
    active_runs_max bigint CHECK (active_runs_max >= 0),
    intake_events_per_minute_max bigint CHECK (intake_events_per_minute_max >= 0),
    event_bytes_max bigint CHECK (event_bytes_max >= 0),
    -- Its part of the slots, beside others' parts.
    weight integer CHECK (weight BETWEEN 1 AND 1000),
    actor text COLLATE "C"
        CHECK (octet_length(actor) BETWEEN 1 AND 256),
    reason text
        CHECK (octet_length(reason) BETWEEN 1 AND 1024),
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- What happened to a run and is still to be published. In order of id, for whoever writes here holds
-- the queue's lock.
CREATE TABLE run_events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id uuid NOT NULL,
    organization_id text COLLATE "C" NOT NULL,
    project_id text COLLATE "C",
    task_id text COLLATE "C",
    agent_profile_id text COLLATE "C" NOT NULL,
    event text COLLATE "C" NOT NULL
        CHECK (event IN ('claimed', 'started', 'returned', 'cancel_requested', 'succeeded', 'failed',
                         'cancelled', 'expired', 'timed_out', 'limit_exceeded')),
    at timestamptz NOT NULL,
    reason text,
    runner_id text COLLATE "C",
    fencing_token bigint NOT NULL,
    actor text COLLATE "C",
    traceparent text COLLATE "C"
);

CREATE FUNCTION queue_lock() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM queue_platform p WHERE p.singleton FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the row of queue_platform is gone';
    END IF;
END $$;

-- Runs that are inserted, all of a statement at once: one row each for the projects and organizations
-- they are of.
CREATE FUNCTION queue_runs_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    under_way bigint;
BEGIN
    SELECT count(*) INTO under_way FROM inserted i WHERE i.status IN ('claimed', 'running');
    UPDATE queue_platform p
    SET queued = p.queued + n.queued, active = p.active + under_way
    FROM (SELECT count(*) AS queued FROM inserted i WHERE i.status = 'queued') n
    WHERE p.singleton;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the row of queue_platform is gone';
    END IF;
    -- With the queue locked nobody else makes these rows, so they are changed, and those that are
    -- not there are made: ON CONFLICT would look at each twice.
    WITH added AS MATERIALIZED (
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
        WHERE o.organization_id IN (
            SELECT i.organization_id FROM inserted i WHERE i.status IN ('claimed', 'running')
        );
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER queue_runs_inserted AFTER INSERT ON runs
    REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION queue_runs_inserted();

-- One run leaves its place, takes one, or both. What came before the first of a queue has left it, so
-- the next one is looked for behind the first: never among the rows that are gone.
CREATE FUNCTION queue_move(
    of_organization text, of_project text, queued_by integer, active_by integer,
    left_id uuid, joined_rank bigint, joined_id uuid, is_claim boolean
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    rank bigint;
    head uuid;
    turn bigint;
BEGIN
    PERFORM queue_lock();
    IF is_claim THEN
        SELECT o.served INTO turn FROM queue_organizations o
        WHERE o.organization_id = of_organization;
    END IF;
    UPDATE queue_platform p
    SET queued = p.queued + queued_by, active = p.active + active_by,
        served = greatest(p.served, turn)
    WHERE p.singleton
    RETURNING p.served INTO turn;

    SELECT p.head_rank, p.head_id INTO rank, head FROM queue_projects p
    WHERE p.organization_id = of_organization AND p.project_id = of_project;
    IF left_id = head THEN
        SELECT r.queue_rank, r.id INTO rank, head FROM queued_runs r
        WHERE r.organization_id = of_organization AND r.project_id = of_project
            AND (r.queue_rank, r.id) > (rank, head)
        ORDER BY r.queue_rank, r.id
        LIMIT 1;
    END IF;
    IF joined_id IS NOT NULL
        AND (head IS NULL OR (joined_rank, joined_id) < (rank, head))
    THEN
        rank := joined_rank;
        head := joined_id;
    END IF;
    DELETE FROM queue_projects p
    WHERE p.organization_id = of_organization AND p.project_id = of_project
        AND p.queued + queued_by = 0 AND p.active + active_by = 0;
    IF NOT FOUND THEN
        UPDATE queue_projects p
        SET queued = p.queued + queued_by, active = p.active + active_by,
            head_rank = rank, head_id = head
        WHERE p.organization_id = of_organization AND p.project_id = of_project;
        IF NOT FOUND THEN
            INSERT INTO queue_projects
                (organization_id, project_id, queued, active, head_rank, head_id)
            VALUES (of_organization, of_project, queued_by, active_by, rank, head);
        END IF;
    END IF;
    UPDATE queue_organizations o
    SET queued = o.queued + queued_by, active = o.active + active_by,
        ready = EXISTS (
            SELECT FROM queue_projects p WHERE p.organization_id = of_organization AND p.ready
        ),
        served = CASE WHEN is_claim THEN turn + 1000000 / o.weight ELSE o.served END
    WHERE o.organization_id = of_organization;
    IF NOT FOUND THEN
        INSERT INTO queue_organizations (organization_id, queued, active, ready)
        SELECT of_organization, queued_by, active_by, EXISTS (
            SELECT FROM queue_projects p WHERE p.organization_id = of_organization AND p.ready
        );
    END IF;
END $$;

CREATE FUNCTION run_event(r runs, event text, at timestamptz) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO run_events
        (run_id, organization_id, project_id, task_id, agent_profile_id, event, at, reason,
         runner_id, fencing_token, actor, traceparent)
    VALUES
        (r.id, r.organization_id, r.project_id, r.task_id, r.agent_profile_id, event, at,
         coalesce(r.ended_reason, r.cancel_reason), r.runner_id, r.fencing_token, r.cancel_actor,
         r.traceparent)
$$;

CREATE FUNCTION queue_run_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    was_queued boolean := OLD.status = 'queued';
    is_queued boolean := NEW.status = 'queued';
    was_active boolean := OLD.status IN ('claimed', 'running');
    is_active boolean := NEW.status IN ('claimed', 'running');
BEGIN
    IF was_queued OR is_queued OR was_active <> is_active THEN
        PERFORM queue_move(
            NEW.organization_id, coalesce(NEW.project_id, ''),
            is_queued::integer - was_queued::integer, is_active::integer - was_active::integer,
            CASE WHEN was_queued THEN OLD.id END,
            CASE WHEN is_queued THEN queue_rank(
                NEW.queue_class, NEW.producer, NEW.actor_type, NEW.reason, NEW.requested_at) END,
            CASE WHEN is_queued THEN NEW.id END,
            was_queued AND is_active
        );
    END IF;
    IF (was_queued OR was_active) AND NEW.status <> OLD.status THEN
        PERFORM queue_lock();
        -- Whose it was, where it is nobody's now. The row is written already.
        NEW.runner_id := coalesce(NEW.runner_id, OLD.runner_id);
        PERFORM run_event(
            NEW,
            CASE NEW.status WHEN 'queued' THEN 'returned' WHEN 'running' THEN 'started'
                ELSE NEW.status END,
            coalesce(CASE NEW.status WHEN 'queued' THEN OLD.lease_expires_at
                WHEN 'claimed' THEN NEW.claimed_at WHEN 'running' THEN NEW.started_at
                ELSE NEW.finished_at END, now())
        );
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER queue_run_changed
    AFTER UPDATE OF status, queue_class, producer, actor_type, reason, requested_at ON runs
    FOR EACH ROW WHEN (
        OLD.status <> NEW.status
        OR (NEW.status = 'queued'
            AND queue_rank(OLD.queue_class, OLD.producer, OLD.actor_type, OLD.reason,
                           OLD.requested_at)
                <> queue_rank(NEW.queue_class, NEW.producer, NEW.actor_type, NEW.reason,
                              NEW.requested_at))
    )
    EXECUTE FUNCTION queue_run_changed();

CREATE FUNCTION queue_run_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM queue_move(
        OLD.organization_id, coalesce(OLD.project_id, ''),
        -(OLD.status = 'queued')::integer, -(OLD.status <> 'queued')::integer,
        OLD.id, NULL, NULL, false
    );
    RETURN NULL;
END $$;

CREATE TRIGGER queue_run_deleted AFTER DELETE ON runs
    FOR EACH ROW WHEN (OLD.status IN ('queued', 'claimed', 'running'))
    EXECUTE FUNCTION queue_run_deleted();

CREATE FUNCTION queue_runs_truncated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM queue_lock();
    DELETE FROM queue_projects;
    UPDATE queue_organizations SET queued = 0, active = 0, ready = false;
    UPDATE queue_platform SET queued = 0, active = 0;
    RETURN NULL;
END $$;

CREATE TRIGGER queue_runs_truncated AFTER TRUNCATE ON runs
    FOR EACH STATEMENT EXECUTE FUNCTION queue_runs_truncated();

CREATE FUNCTION queue_run_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a run keeps its id, its organization and its project'
        USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER queue_run_stays BEFORE UPDATE OF id, organization_id, project_id ON runs
    FOR EACH ROW WHEN (
        OLD.id <> NEW.id
        OR OLD.organization_id <> NEW.organization_id
        OR OLD.project_id IS DISTINCT FROM NEW.project_id
    )
    EXECUTE FUNCTION queue_run_stays();

CREATE FUNCTION queue_run_cancelling() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM queue_lock();
    PERFORM run_event(NEW, 'cancel_requested', NEW.cancel_requested_at);
    RETURN NULL;
END $$;

CREATE TRIGGER queue_run_cancelling AFTER UPDATE OF cancel_requested_at ON runs
    FOR EACH ROW WHEN (
        OLD.cancel_requested_at IS NULL AND NEW.cancel_requested_at IS NOT NULL
        AND NEW.status IN ('claimed', 'running')
    )
    EXECUTE FUNCTION queue_run_cancelling();

-- Whoever pauses waits for the claim that is being made, and none is made after.
CREATE FUNCTION queue_paused() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    pause pauses;
BEGIN
    PERFORM queue_lock();
    FOREACH pause IN ARRAY ARRAY[OLD, NEW] LOOP
        IF pause.scope = 'organization' THEN
            INSERT INTO queue_organizations AS o (organization_id, paused)
            SELECT pause.organization_id, EXISTS (
                SELECT FROM pauses p
                WHERE p.scope = 'organization' AND p.organization_id = pause.organization_id
                    AND p.released_at IS NULL
            )
            ON CONFLICT (organization_id) DO UPDATE SET paused = EXCLUDED.paused;
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

CREATE TRIGGER queue_paused AFTER INSERT OR UPDATE OR DELETE ON pauses
    FOR EACH ROW EXECUTE FUNCTION queue_paused();

CREATE FUNCTION queue_limited() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM queue_lock();
    IF TG_OP <> 'INSERT' THEN
        UPDATE queue_organizations o SET weight = 1, active_max = NULL
        WHERE o.organization_id = OLD.organization_id;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO queue_organizations AS o (organization_id, weight, active_max)
        VALUES (NEW.organization_id, coalesce(NEW.weight, 1), NEW.active_runs_max)
        ON CONFLICT (organization_id) DO UPDATE
        SET weight = EXCLUDED.weight, active_max = EXCLUDED.active_max;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER queue_limited AFTER INSERT OR UPDATE OR DELETE ON organization_limits
    FOR EACH ROW EXECUTE FUNCTION queue_limited();

-- Takes up to so many runs. A run that is still queued in the answer is the one that was next and is
-- locked by somebody who may be waiting for this: let go, wait for that run, and claim again.
CREATE FUNCTION queue_claim(
    the_claim uuid, the_runner text, runs_max integer, of_organizations text[], at timestamptz,
    lease_until timestamptz, platform_active_max bigint, organization_active_max bigint,
    expired_max integer
) RETURNS SETOF runs LANGUAGE plpgsql AS $$
DECLARE
    slots bigint;
    chosen text;
    head uuid;
    run runs;
BEGIN
    PERFORM queue_lock();
    RETURN QUERY SELECT r.* FROM runs r WHERE r.claim_id = the_claim AND r.status = 'claimed';
    IF FOUND THEN
        RETURN;
    END IF;
    PERFORM FROM pauses p
    WHERE p.scope = 'platform' AND p.organization_id = '' AND p.released_at IS NULL;
    IF FOUND THEN
        RETURN;
    END IF;
    SELECT least(platform_active_max - p.active, runs_max) INTO slots FROM queue_platform p
    WHERE p.singleton;
    WHILE slots > 0 LOOP
        IF of_organizations IS NULL THEN
            SELECT o.organization_id INTO chosen FROM queue_organizations o
            WHERE o.startable AND o.active < organization_active_max
            ORDER BY o.share, o.served, o.organization_id
            LIMIT 1;
        ELSE
            SELECT c.organization_id INTO chosen
            FROM unnest(of_organizations) AS w (organization_id)
            CROSS JOIN LATERAL (
                SELECT o.organization_id, o.share, o.served FROM queue_organizations o
                WHERE o.organization_id = w.organization_id
                    AND o.startable AND o.active < organization_active_max
                LIMIT 1
            ) c
            ORDER BY c.share, c.served, c.organization_id
            LIMIT 1;
        END IF;
        EXIT WHEN NOT FOUND;
        SELECT p.head_id INTO head FROM queue_projects p
        WHERE p.organization_id = chosen AND p.ready
        ORDER BY p.head_rank, p.head_id
        LIMIT 1;
        SELECT r.* INTO run FROM runs r WHERE r.id = head FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN QUERY SELECT r.* FROM runs r WHERE r.id = head;
            RETURN;
        END IF;
        IF run.expires_at <= at THEN
            EXIT WHEN expired_max <= 0;
            UPDATE runs r
            SET status = 'expired', finished_at = at, ended_reason = 'waited_too_long'
            WHERE r.id = head;
            expired_max := expired_max - 1;
        ELSE
            UPDATE runs r
            SET status = 'claimed', claimed_at = at, runner_id = the_runner,
                claim_id = the_claim, fencing_token = r.fencing_token + 1,
                lease_expires_at = lease_until
            WHERE r.id = head
            RETURNING r.* INTO run;
            slots := slots - 1;
            RETURN NEXT run;
        END IF;
    END LOOP;
END $$;

-- Whoever may write runs keeps the queue by that, and needs no rights on its tables. They run as the
-- owner, so what they name is looked for in the owner's schema only; and who may claim is granted.
DO $$
DECLARE
    function text;
BEGIN
    FOREACH function IN ARRAY ARRAY[
        'queue_runs_inserted()', 'queue_run_changed()', 'queue_run_deleted()',
        'queue_runs_truncated()', 'queue_run_cancelling()', 'queue_paused()', 'queue_limited()',
        'queue_claim(uuid, text, integer, text[], timestamptz, timestamptz, bigint, bigint, integer)'
    ] LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = %I, pg_temp',
                       function, current_schema());
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', function);
    END LOOP;
END $$;

INSERT INTO queue_platform (queued, active)
SELECT count(*) FILTER (WHERE status = 'queued'), count(*) FILTER (WHERE status <> 'queued')
FROM runs
WHERE status IN ('queued', 'claimed', 'running');

INSERT INTO queue_projects (organization_id, project_id, queued, active, head_rank, head_id)
SELECT r.organization_id, coalesce(r.project_id, ''),
       count(*) FILTER (WHERE r.status = 'queued'),
       count(*) FILTER (WHERE r.status <> 'queued'),
       min(r.queue_rank) FILTER (WHERE r.status = 'queued'),
       (array_agg(r.id ORDER BY r.queue_rank, r.id) FILTER (WHERE r.status = 'queued'))[1]
FROM (
    SELECT id, organization_id, project_id, status,
           queue_rank(queue_class, producer, actor_type, reason, requested_at) AS queue_rank
    FROM runs
    WHERE status IN ('queued', 'claimed', 'running')
) r
GROUP BY r.organization_id, coalesce(r.project_id, '');

INSERT INTO queue_organizations (organization_id, queued, active, ready)
SELECT organization_id, sum(queued), sum(active), bool_or(ready)
FROM queue_projects
GROUP BY organization_id;

INSERT INTO queue_organizations (organization_id, paused)
SELECT organization_id, true
FROM pauses
WHERE scope = 'organization' AND released_at IS NULL
ON CONFLICT (organization_id) DO UPDATE SET paused = true;
