-- Times are integer microseconds since the epoch, ids of wakes and runs lower-case hyphenated UUIDs:
-- in that form their order as text is their order as bytes. Text is compared byte by byte (BINARY,
-- the default), and its limits are in bytes, hence the casts.

CREATE TABLE runs (
    id TEXT PRIMARY KEY NOT NULL
        CHECK (length(id) = 36 AND id NOT GLOB '*[^-0-9a-f]*'),
    organization_id TEXT NOT NULL
        CHECK (length(CAST(organization_id AS BLOB)) <= 256),
    project_id TEXT
        CHECK (length(CAST(project_id AS BLOB)) BETWEEN 1 AND 256),
    agent_profile_id TEXT NOT NULL
        CHECK (length(CAST(agent_profile_id AS BLOB)) BETWEEN 1 AND 256),
    reason TEXT NOT NULL
        CHECK (length(CAST(reason AS BLOB)) BETWEEN 1 AND 64),
    status TEXT NOT NULL DEFAULT 'queued'
        CHECK (status IN ('queued', 'claimed', 'running', 'succeeded', 'failed', 'cancelled',
                          'expired', 'timed_out', 'limit_exceeded')),
    -- PostgreSQL's text holds no NUL; what one database refuses, both do.
    payload TEXT NOT NULL DEFAULT '{}' CHECK (instr(payload, char(0)) = 0),
    -- What the payload says, written together with it; null where it says no usable string.
    task_id TEXT
        CHECK (length(CAST(task_id AS BLOB)) BETWEEN 1 AND 256),
    actor_type TEXT
        CHECK (length(CAST(actor_type AS BLOB)) BETWEEN 1 AND 256),
    actor_id TEXT
        CHECK (length(CAST(actor_id AS BLOB)) BETWEEN 1 AND 256),
    -- The payload's task_id is there but no usable string: the run takes no wake in.
    task_unusable INTEGER NOT NULL DEFAULT 0
        CHECK (task_unusable IN (0, 1)),
    idempotency_key TEXT
        CHECK (length(CAST(idempotency_key AS BLOB)) BETWEEN 1 AND 1571),
    coalesced_count INTEGER NOT NULL DEFAULT 1
        CHECK (coalesced_count BETWEEN 1 AND 2147483647),
    degraded_reason TEXT
        CHECK (degraded_reason IN ('count_read_failed', 'task_unattributed')),
    producer TEXT NOT NULL DEFAULT 'other'
        CHECK (length(CAST(producer AS BLOB)) <= 256),
    traceparent TEXT,
    requested_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)),
    decided_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)),
    claimed_at INTEGER,
    finished_at INTEGER,
    CHECK (task_unusable = 0 OR task_id IS NULL)
) STRICT;

-- Serves the allowance's count and coalescing of wakes that name a task.
CREATE INDEX runs_by_task ON runs (organization_id, task_id, requested_at, id)
    WHERE task_id IS NOT NULL;

-- Serves coalescing of wakes that name none.
CREATE INDEX runs_queued_taskless
    ON runs (organization_id, agent_profile_id, reason, requested_at, id)
    WHERE status = 'queued' AND task_id IS NULL AND task_unusable = 0;

-- What counts against a task's allowance, whatever became of it since.
CREATE VIEW counted_runs AS
    SELECT organization_id, task_id, requested_at, id
    FROM runs
    WHERE reason = 'task_assigned' AND actor_type = 'agent' AND task_id IS NOT NULL;

-- What may take a wake in.
CREATE VIEW mergeable_runs AS
    SELECT organization_id, agent_profile_id, reason, task_id, requested_at, id, actor_type
    FROM runs
    WHERE status = 'queued'
        AND task_unusable = 0
        AND (idempotency_key IS NULL OR substr(idempotency_key, 1, 13) <> 'task_comment:');

CREATE TABLE merged_wakes (
    wake_id TEXT PRIMARY KEY NOT NULL
        CHECK (length(wake_id) = 36 AND wake_id NOT GLOB '*[^-0-9a-f]*'),
    run_id TEXT NOT NULL
        CHECK (length(run_id) = 36 AND run_id NOT GLOB '*[^-0-9a-f]*'),
    organization_id TEXT NOT NULL
        CHECK (length(CAST(organization_id AS BLOB)) <= 256),
    idempotency_key TEXT
        CHECK (length(CAST(idempotency_key AS BLOB)) BETWEEN 1 AND 1571),
    payload TEXT NOT NULL DEFAULT '{}' CHECK (instr(payload, char(0)) = 0),
    actor_type TEXT
        CHECK (length(CAST(actor_type AS BLOB)) BETWEEN 1 AND 256),
    actor_id TEXT
        CHECK (length(CAST(actor_id AS BLOB)) BETWEEN 1 AND 256),
    requested_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)),
    decided_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER))
) STRICT;

CREATE INDEX merged_wakes_by_key ON merged_wakes (organization_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

CREATE TABLE refused_wakes (
    wake_id TEXT PRIMARY KEY NOT NULL
        CHECK (length(wake_id) = 36 AND wake_id NOT GLOB '*[^-0-9a-f]*'),
    organization_id TEXT NOT NULL
        CHECK (length(CAST(organization_id AS BLOB)) <= 256),
    task_id TEXT
        CHECK (length(CAST(task_id AS BLOB)) BETWEEN 1 AND 256),
    reason TEXT NOT NULL
        CHECK (reason IN ('agent_paused', 'agent_stopped', 'agent_pending_approval',
                          'platform_paused', 'organization_paused', 'allowance_exhausted',
                          'capacity_exhausted')),
    record TEXT NOT NULL,
    requested_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER))
) STRICT;

-- Kept beyond the runs, so no foreign key.
CREATE TABLE wake_keys (
    organization_id TEXT NOT NULL
        CHECK (length(CAST(organization_id AS BLOB)) <= 256),
    idempotency_key TEXT NOT NULL
        CHECK (length(CAST(idempotency_key AS BLOB)) BETWEEN 1 AND 1571),
    run_id TEXT NOT NULL
        CHECK (length(run_id) = 36 AND run_id NOT GLOB '*[^-0-9a-f]*'),
    requested_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)),
    PRIMARY KEY (organization_id, idempotency_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE lanes (
    stream TEXT NOT NULL CHECK (stream <> ''),
    lane INTEGER NOT NULL CHECK (lane >= 0),
    stream_created_at INTEGER NOT NULL,
    decided_sequence INTEGER NOT NULL DEFAULT 0 CHECK (decided_sequence >= 0),
    decided_instant INTEGER NOT NULL DEFAULT 0,
    -- Rows may be there up to here from a stream that has been created anew since.
    known_sequence INTEGER NOT NULL DEFAULT 0 CHECK (known_sequence >= 0),
    PRIMARY KEY (stream, lane)
) STRICT, WITHOUT ROWID;

-- Attempts at one wake alone that have begun and not ended: what is left here when a worker
-- starts is what ended with a process.
CREATE TABLE isolated_wakes (
    wake_id TEXT PRIMARY KEY NOT NULL
        CHECK (length(wake_id) = 36 AND wake_id NOT GLOB '*[^-0-9a-f]*'),
    stream TEXT NOT NULL,
    lane INTEGER NOT NULL CHECK (lane >= 0),
    attempts INTEGER NOT NULL DEFAULT 1 CHECK (attempts >= 1),
    started_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER))
) STRICT;

CREATE TABLE agents (
    organization_id TEXT NOT NULL
        CHECK (length(CAST(organization_id AS BLOB)) <= 256),
    agent_profile_id TEXT NOT NULL
        CHECK (length(CAST(agent_profile_id AS BLOB)) BETWEEN 1 AND 256),
    status TEXT NOT NULL
        CHECK (status IN ('idle', 'working', 'paused', 'stopped', 'pending_approval')),
    updated_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)),
    PRIMARY KEY (organization_id, agent_profile_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE pauses (
    id TEXT PRIMARY KEY NOT NULL DEFAULT (lower(hex(randomblob(16))))
        CHECK (length(CAST(id AS BLOB)) BETWEEN 1 AND 256),
    scope TEXT NOT NULL CHECK (scope IN ('platform', 'organization')),
    organization_id TEXT NOT NULL DEFAULT ''
        CHECK (length(CAST(organization_id AS BLOB)) <= 256),
    mode TEXT NOT NULL DEFAULT 'drain' CHECK (mode IN ('drain', 'stop_now')),
    actor TEXT NOT NULL DEFAULT '',
    reason TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)),
    released_at INTEGER,
    released_by TEXT,
    release_reason TEXT,
    CHECK (scope = 'organization' OR organization_id = '')
) STRICT;

-- At most one active pause for the platform and one for each organization; `''` is an
-- organization too, so the scope is part of it.
CREATE UNIQUE INDEX pauses_active ON pauses (scope, organization_id)
    WHERE released_at IS NULL;
