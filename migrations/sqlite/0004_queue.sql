-- The queue: which run is next, how many wait and how many are under way. It is kept by triggers on
-- `runs`, so that nobody who writes runs can put it out of step. docs/queue.md tells the rules. With
-- one writer at a time the queue needs no lock of its own.

-- The best class that any of its wakes had, where that is not what the row says now.
ALTER TABLE runs ADD COLUMN queue_class INTEGER
    CHECK (queue_class BETWEEN 0 AND 3);
-- Latest instant at which it may still be started; null is never too late.
ALTER TABLE runs ADD COLUMN expires_at INTEGER;
ALTER TABLE runs ADD COLUMN runner_id TEXT
    CHECK (length(CAST(runner_id AS BLOB)) BETWEEN 1 AND 256);
-- The request that claimed it, by which that request can be repeated.
ALTER TABLE runs ADD COLUMN claim_id TEXT
    CHECK (length(claim_id) = 36 AND claim_id NOT GLOB '*[^-0-9a-f]*');
-- Grows with each claim; what a runner holds is good for the claim it came with only.
ALTER TABLE runs ADD COLUMN fencing_token INTEGER NOT NULL DEFAULT 0
    CHECK (fencing_token >= 0);
-- Null of a run that was claimed without a lease, which never lapses.
ALTER TABLE runs ADD COLUMN lease_expires_at INTEGER;
ALTER TABLE runs ADD COLUMN started_at INTEGER;
ALTER TABLE runs ADD COLUMN ended_reason TEXT
    CHECK (length(CAST(ended_reason AS BLOB)) BETWEEN 1 AND 1024);
ALTER TABLE runs ADD COLUMN cancel_requested_at INTEGER;
ALTER TABLE runs ADD COLUMN cancel_actor TEXT
    CHECK (length(CAST(cancel_actor AS BLOB)) BETWEEN 1 AND 256);
ALTER TABLE runs ADD COLUMN cancel_reason TEXT
    CHECK (length(CAST(cancel_reason AS BLOB)) BETWEEN 1 AND 1024);

-- The place within a project's queue, the least first: the request instant in microseconds, later by
-- a constant for each class (0 a person waits for it, 1 recovery, 2 an event, 3 periodic). Those of
-- people come before all others whatever their age.
ALTER TABLE runs ADD COLUMN queue_rank INTEGER GENERATED ALWAYS AS (
    requested_at + CASE coalesce(queue_class, CASE
        WHEN producer = 'recovery_sweep' THEN 1
        WHEN actor_type = 'user' THEN 0
        WHEN reason IN ('heartbeat', 'periodic', 'routine', 'scheduled') THEN 3
        ELSE 2
    END)
        WHEN 0 THEN -4000000000000000000
        WHEN 1 THEN 0
        WHEN 2 THEN 120000000
        ELSE 600000000
    END
) VIRTUAL;
ALTER TABLE runs ADD COLUMN queue_project TEXT GENERATED ALWAYS AS (coalesce(project_id, '')) VIRTUAL;

CREATE INDEX runs_queue ON runs (organization_id, queue_project, queue_rank, id)
    WHERE status = 'queued';
CREATE INDEX runs_expiring ON runs (expires_at)
    WHERE status = 'queued' AND expires_at IS NOT NULL;
CREATE INDEX runs_leased ON runs (status, lease_expires_at)
    WHERE status IN ('claimed', 'running') AND lease_expires_at IS NOT NULL;
CREATE INDEX runs_cancelling ON runs (cancel_requested_at)
    WHERE status IN ('claimed', 'running') AND cancel_requested_at IS NOT NULL;
CREATE INDEX runs_claims ON runs (claim_id)
    WHERE status = 'claimed' AND claim_id IS NOT NULL;

CREATE TABLE queue_platform (
    singleton INTEGER PRIMARY KEY DEFAULT 1 CHECK (singleton = 1),
    queued INTEGER NOT NULL DEFAULT 0 CHECK (queued >= 0),
    active INTEGER NOT NULL DEFAULT 0 CHECK (active >= 0),
    -- How far those have been served that were served least: an organization that comes back starts
    -- from here, and not from what it did not use.
    served INTEGER NOT NULL DEFAULT 0 CHECK (served >= 0)
) STRICT;

CREATE TABLE queue_organizations (
    organization_id TEXT PRIMARY KEY NOT NULL
        CHECK (length(CAST(organization_id AS BLOB)) <= 256),
    queued INTEGER NOT NULL DEFAULT 0 CHECK (queued >= 0),
    active INTEGER NOT NULL DEFAULT 0 CHECK (active >= 0),
    -- Whether one of its projects has a run that could be started.
    ready INTEGER NOT NULL DEFAULT 0 CHECK (ready IN (0, 1)),
    paused INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    -- The organization's own ceiling; the platform's holds besides.
    active_max INTEGER CHECK (active_max >= 0),
    weight INTEGER NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 1000),
    -- Grows with each claim by a millionth part of its weight's.
    served INTEGER NOT NULL DEFAULT 0 CHECK (served >= 0),
    share INTEGER GENERATED ALWAYS AS (active * 1000000000 / weight) STORED,
    startable INTEGER GENERATED ALWAYS AS (
        ready AND NOT paused AND (active_max IS NULL OR active < active_max)
    ) STORED
) STRICT;

CREATE INDEX queue_organizations_next ON queue_organizations (share, served, organization_id)
    WHERE startable;

-- A row for each project with something queued or under way; '' is for runs without a project,
-- which do not exclude each other.
CREATE TABLE queue_projects (
    organization_id TEXT NOT NULL
        CHECK (length(CAST(organization_id AS BLOB)) <= 256),
    project_id TEXT NOT NULL
        CHECK (length(CAST(project_id AS BLOB)) <= 256),
    queued INTEGER NOT NULL DEFAULT 0 CHECK (queued >= 0),
    active INTEGER NOT NULL DEFAULT 0 CHECK (active >= 0),
    -- The first of its queue.
    head_rank INTEGER,
    head_id TEXT,
    ready INTEGER GENERATED ALWAYS AS (queued > 0 AND (project_id = '' OR active = 0)) STORED,
    PRIMARY KEY (organization_id, project_id),
    CHECK ((queued > 0) = (head_id IS NOT NULL)),
    CHECK ((head_id IS NULL) = (head_rank IS NULL))
) STRICT;

CREATE INDEX queue_projects_next ON queue_projects (organization_id, head_rank, head_id)
    WHERE ready;

-- What an organization has set for itself: the lower of this and the platform's holds, null leaves
-- the platform's, 0 is none.
CREATE TABLE organization_limits (
    organization_id TEXT PRIMARY KEY NOT NULL
        CHECK (length(CAST(organization_id AS BLOB)) <= 256),
    queued_runs_max INTEGER CHECK (queued_runs_max >= 0),
    queued_runs_project_max INTEGER CHECK (queued_runs_project_max >= 0),
    waiting_seconds_max INTEGER CHECK (waiting_seconds_max >= 0),
    active_runs_max INTEGER CHECK (active_runs_max >= 0),
    intake_events_per_minute_max INTEGER CHECK (intake_events_per_minute_max >= 0),
    event_bytes_max INTEGER CHECK (event_bytes_max >= 0),
    -- Its part of the slots, beside others' parts.
    weight INTEGER CHECK (weight BETWEEN 1 AND 1000),
    actor TEXT
        CHECK (length(CAST(actor AS BLOB)) BETWEEN 1 AND 256),
    reason TEXT
        CHECK (length(CAST(reason AS BLOB)) BETWEEN 1 AND 1024),
    updated_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER))
) STRICT;

-- What happened to a run and is still to be published, in order of id.
CREATE TABLE run_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    project_id TEXT,
    task_id TEXT,
    agent_profile_id TEXT NOT NULL,
    event TEXT NOT NULL
        CHECK (event IN ('claimed', 'started', 'returned', 'cancel_requested', 'succeeded', 'failed',
                         'cancelled', 'expired', 'timed_out', 'limit_exceeded')),
    at INTEGER NOT NULL,
    reason TEXT,
    runner_id TEXT,
    fencing_token INTEGER NOT NULL,
    actor TEXT,
    traceparent TEXT
) STRICT;

CREATE TRIGGER queue_run_inserted AFTER INSERT ON runs
WHEN NEW.status IN ('queued', 'claimed', 'running')
BEGIN
    UPDATE queue_platform
    SET queued = queued + (NEW.status = 'queued'), active = active + (NEW.status <> 'queued');
    INSERT INTO queue_projects (organization_id, project_id, queued, active, head_rank, head_id)
    VALUES (NEW.organization_id, NEW.queue_project, NEW.status = 'queued', NEW.status <> 'queued',
            iif(NEW.status = 'queued', NEW.queue_rank, NULL),
            iif(NEW.status = 'queued', NEW.id, NULL))
    ON CONFLICT (organization_id, project_id) DO UPDATE
    SET queued = queued + excluded.queued,
        active = active + excluded.active,
        (head_rank, head_id) = (
            SELECT iif(n, excluded.head_rank, queue_projects.head_rank),
                   iif(n, excluded.head_id, queue_projects.head_id)
            FROM (SELECT excluded.head_id IS NOT NULL
                      AND (queue_projects.head_id IS NULL
                           OR (excluded.head_rank, excluded.head_id)
                               < (queue_projects.head_rank, queue_projects.head_id)) AS n)
        );
    INSERT INTO queue_organizations (organization_id, queued, active, ready)
    SELECT NEW.organization_id, NEW.status = 'queued', NEW.status <> 'queued', EXISTS (
        SELECT 1 FROM queue_projects p WHERE p.organization_id = NEW.organization_id AND p.ready
    )
    WHERE true
    ON CONFLICT (organization_id) DO UPDATE
    SET queued = queued + excluded.queued,
        active = active + excluded.active,
        ready = excluded.ready;
END;

-- One run leaves its place, takes one, or both. What came before the first of a queue has left it, so
-- the next one is looked for behind the first.
CREATE TRIGGER queue_run_changed
AFTER UPDATE OF status, queue_class, producer, actor_type, reason, requested_at ON runs
WHEN (OLD.status = 'queued' OR NEW.status = 'queued'
      OR (OLD.status IN ('claimed', 'running')) <> (NEW.status IN ('claimed', 'running')))
    AND (OLD.status <> NEW.status OR OLD.queue_rank <> NEW.queue_rank)
BEGIN
    UPDATE queue_platform
    SET queued = queued + (NEW.status = 'queued') - (OLD.status = 'queued'),
        active = active + (NEW.status IN ('claimed', 'running'))
            - (OLD.status IN ('claimed', 'running')),
        served = iif(OLD.status = 'queued' AND NEW.status IN ('claimed', 'running'),
            max(served, coalesce((
                SELECT o.served FROM queue_organizations o
                WHERE o.organization_id = NEW.organization_id), 0)),
            served);
    INSERT INTO queue_projects (organization_id, project_id, queued, active, head_rank, head_id)
    VALUES (NEW.organization_id, NEW.queue_project, NEW.status = 'queued',
            NEW.status IN ('claimed', 'running'), iif(NEW.status = 'queued', NEW.queue_rank, NULL),
            iif(NEW.status = 'queued', NEW.id, NULL))
    ON CONFLICT (organization_id, project_id) DO UPDATE
    SET queued = queued + (NEW.status = 'queued') - (OLD.status = 'queued'),
        active = active + (NEW.status IN ('claimed', 'running'))
            - (OLD.status IN ('claimed', 'running')),
        (head_rank, head_id) = (
            -- One row of nulls where there is none, or the column of the first row would decide.
            SELECT min(h.queue_rank), h.id
            FROM (
                SELECT * FROM (
                    SELECT r.queue_rank, r.id FROM runs r
                    WHERE OLD.status = 'queued' AND queue_projects.head_id = OLD.id
                        AND r.status = 'queued' AND r.organization_id = NEW.organization_id
                        AND r.queue_project = NEW.queue_project
                        AND r.queue_rank >= queue_projects.head_rank
                    ORDER BY r.queue_rank, r.id
                    LIMIT 1
                )
                UNION ALL
                SELECT queue_projects.head_rank, queue_projects.head_id
                WHERE queue_projects.head_id IS NOT NULL
                    AND (OLD.status <> 'queued' OR queue_projects.head_id <> OLD.id)
                UNION ALL
                SELECT NEW.queue_rank, NEW.id WHERE NEW.status = 'queued'
                ORDER BY 1, 2
                LIMIT 1
            ) h
        );
    DELETE FROM queue_projects
    WHERE organization_id = NEW.organization_id AND project_id = NEW.queue_project
        AND queued = 0 AND active = 0;
    INSERT INTO queue_organizations (organization_id, queued, active, ready)
    SELECT NEW.organization_id, NEW.status = 'queued', NEW.status IN ('claimed', 'running'), EXISTS (
        SELECT 1 FROM queue_projects p WHERE p.organization_id = NEW.organization_id AND p.ready
    )
    WHERE true
    ON CONFLICT (organization_id) DO UPDATE
    SET queued = queued + (NEW.status = 'queued') - (OLD.status = 'queued'),
        active = active + (NEW.status IN ('claimed', 'running'))
            - (OLD.status IN ('claimed', 'running')),
        ready = excluded.ready,
        served = iif(OLD.status = 'queued' AND NEW.status IN ('claimed', 'running'),
            (SELECT p.served FROM queue_platform p) + 1000000 / weight,
            served);
END;

CREATE TRIGGER queue_run_event AFTER UPDATE OF status ON runs
WHEN OLD.status <> NEW.status AND OLD.status IN ('queued', 'claimed', 'running')
BEGIN
    INSERT INTO run_events
        (run_id, organization_id, project_id, task_id, agent_profile_id, event, at, reason,
         runner_id, fencing_token, actor, traceparent)
    VALUES
        (NEW.id, NEW.organization_id, NEW.project_id, NEW.task_id, NEW.agent_profile_id,
         CASE NEW.status WHEN 'queued' THEN 'returned' WHEN 'running' THEN 'started'
             ELSE NEW.status END,
         coalesce(
             CASE NEW.status WHEN 'queued' THEN OLD.lease_expires_at
                 WHEN 'claimed' THEN NEW.claimed_at WHEN 'running' THEN NEW.started_at
                 ELSE NEW.finished_at END,
             CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)),
         coalesce(NEW.ended_reason, NEW.cancel_reason), coalesce(NEW.runner_id, OLD.runner_id),
         NEW.fencing_token, NEW.cancel_actor, NEW.traceparent);
END;

CREATE TRIGGER queue_run_cancelling AFTER UPDATE OF cancel_requested_at ON runs
WHEN OLD.cancel_requested_at IS NULL AND NEW.cancel_requested_at IS NOT NULL
    AND NEW.status IN ('claimed', 'running')
BEGIN
    INSERT INTO run_events
        (run_id, organization_id, project_id, task_id, agent_profile_id, event, at, reason,
         runner_id, fencing_token, actor, traceparent)
    VALUES
        (NEW.id, NEW.organization_id, NEW.project_id, NEW.task_id, NEW.agent_profile_id,
         'cancel_requested', NEW.cancel_requested_at, coalesce(NEW.ended_reason, NEW.cancel_reason),
         NEW.runner_id, NEW.fencing_token, NEW.cancel_actor, NEW.traceparent);
END;

CREATE TRIGGER queue_run_deleted AFTER DELETE ON runs
WHEN OLD.status IN ('queued', 'claimed', 'running')
BEGIN
    UPDATE queue_platform
    SET queued = queued - (OLD.status = 'queued'), active = active - (OLD.status <> 'queued');
    UPDATE queue_projects
    SET queued = queued - (OLD.status = 'queued'),
        active = active - (OLD.status <> 'queued'),
        (head_rank, head_id) = (
            SELECT min(h.queue_rank), h.id
            FROM (
                SELECT r.queue_rank, r.id FROM runs r
                WHERE r.status = 'queued' AND r.organization_id = OLD.organization_id
                    AND r.queue_project = OLD.queue_project
                    AND r.queue_rank >= queue_projects.head_rank
                ORDER BY r.queue_rank, r.id
                LIMIT 1
            ) h
        )
    WHERE organization_id = OLD.organization_id AND project_id = OLD.queue_project;
    DELETE FROM queue_projects
    WHERE organization_id = OLD.organization_id AND project_id = OLD.queue_project
        AND queued = 0 AND active = 0;
    UPDATE queue_organizations
    SET queued = queued - (OLD.status = 'queued'),
        active = active - (OLD.status <> 'queued'),
        ready = EXISTS (
            SELECT 1 FROM queue_projects p
            WHERE p.organization_id = OLD.organization_id AND p.ready
        )
    WHERE organization_id = OLD.organization_id;
END;

CREATE TRIGGER queue_run_stays BEFORE UPDATE OF id, organization_id, project_id ON runs
WHEN OLD.id <> NEW.id OR OLD.organization_id <> NEW.organization_id
    OR OLD.project_id IS NOT NEW.project_id
BEGIN
    SELECT raise(ABORT, 'a run keeps its id, its organization and its project');
END;

CREATE TRIGGER queue_pause_inserted AFTER INSERT ON pauses WHEN NEW.scope = 'organization'
BEGIN
    INSERT INTO queue_organizations (organization_id, paused)
    SELECT NEW.organization_id, EXISTS (
        SELECT 1 FROM pauses p
        WHERE p.scope = 'organization' AND p.organization_id = NEW.organization_id
            AND p.released_at IS NULL
    )
    WHERE true
    ON CONFLICT (organization_id) DO UPDATE SET paused = excluded.paused;
END;

CREATE TRIGGER queue_pause_changed AFTER UPDATE ON pauses
BEGIN
    INSERT INTO queue_organizations (organization_id, paused)
    SELECT w.organization_id, EXISTS (
        SELECT 1 FROM pauses p
        WHERE p.scope = 'organization' AND p.organization_id = w.organization_id
            AND p.released_at IS NULL
    )
    FROM (
        SELECT OLD.organization_id AS organization_id, OLD.scope AS scope
        UNION
        SELECT NEW.organization_id, NEW.scope
    ) AS w
    WHERE w.scope = 'organization'
    ON CONFLICT (organization_id) DO UPDATE SET paused = excluded.paused;
END;

CREATE TRIGGER queue_pause_deleted AFTER DELETE ON pauses WHEN OLD.scope = 'organization'
BEGIN
    UPDATE queue_organizations
    SET paused = EXISTS (
        SELECT 1 FROM pauses p
        WHERE p.scope = 'organization' AND p.organization_id = OLD.organization_id
            AND p.released_at IS NULL
    )
    WHERE organization_id = OLD.organization_id;
END;

CREATE TRIGGER queue_limits_inserted AFTER INSERT ON organization_limits
BEGIN
    INSERT INTO queue_organizations (organization_id, weight, active_max)
    VALUES (NEW.organization_id, coalesce(NEW.weight, 1), NEW.active_runs_max)
    ON CONFLICT (organization_id) DO UPDATE
    SET weight = excluded.weight, active_max = excluded.active_max;
END;

CREATE TRIGGER queue_limits_changed AFTER UPDATE ON organization_limits
BEGIN
    UPDATE queue_organizations SET weight = 1, active_max = NULL
    WHERE organization_id = OLD.organization_id;
    INSERT INTO queue_organizations (organization_id, weight, active_max)
    VALUES (NEW.organization_id, coalesce(NEW.weight, 1), NEW.active_runs_max)
    ON CONFLICT (organization_id) DO UPDATE
    SET weight = excluded.weight, active_max = excluded.active_max;
END;

CREATE TRIGGER queue_limits_deleted AFTER DELETE ON organization_limits
BEGIN
    UPDATE queue_organizations SET weight = 1, active_max = NULL
    WHERE organization_id = OLD.organization_id;
END;

INSERT INTO queue_platform (queued, active)
SELECT count(*) FILTER (WHERE status = 'queued'), count(*) FILTER (WHERE status <> 'queued')
FROM runs
WHERE status IN ('queued', 'claimed', 'running');

INSERT INTO queue_projects (organization_id, project_id, queued, active, head_rank, head_id)
SELECT n.organization_id, n.queue_project, n.queued, n.active, n.head_rank, (
    SELECT min(r.id) FROM runs r
    WHERE r.status = 'queued' AND r.organization_id = n.organization_id
        AND r.queue_project = n.queue_project AND r.queue_rank = n.head_rank
)
FROM (
    SELECT organization_id, queue_project,
           count(*) FILTER (WHERE status = 'queued') AS queued,
           count(*) FILTER (WHERE status <> 'queued') AS active,
           min(queue_rank) FILTER (WHERE status = 'queued') AS head_rank
    FROM runs
    WHERE status IN ('queued', 'claimed', 'running')
    GROUP BY organization_id, queue_project
) AS n;

INSERT INTO queue_organizations (organization_id, queued, active, ready)
SELECT organization_id, sum(queued), sum(active), max(ready)
FROM queue_projects
GROUP BY organization_id;

INSERT INTO queue_organizations (organization_id, paused)
SELECT organization_id, 1
FROM pauses
WHERE scope = 'organization' AND released_at IS NULL
ON CONFLICT (organization_id) DO UPDATE SET paused = 1;
