-- Identifiers are compared byte by byte (COLLATE "C"): equality, order and the indices must not
-- depend on the machine's locale, nor change when its C library does.

CREATE TABLE runs (
    id uuid PRIMARY KEY,
    organization_id text COLLATE "C" NOT NULL
        CHECK (octet_length(organization_id) <= 256),
    project_id text COLLATE "C"
        CHECK (octet_length(project_id) BETWEEN 1 AND 256),
    agent_profile_id text COLLATE "C" NOT NULL
        CHECK (octet_length(agent_profile_id) BETWEEN 1 AND 256),
    reason text COLLATE "C" NOT NULL
        CHECK (octet_length(reason) BETWEEN 1 AND 64),
    status text COLLATE "C" NOT NULL DEFAULT 'queued'
        CHECK (status IN ('queued', 'claimed', 'running', 'succeeded', 'failed', 'cancelled',
                          'expired', 'timed_out', 'limit_exceeded')),
    -- Never jsonb and never cast to it: a payload may hold escapes that jsonb refuses.
    payload text NOT NULL DEFAULT '{}',
    -- What the payload says, written together with it; null where it says no usable string.
    task_id text COLLATE "C"
        CHECK (octet_length(task_id) BETWEEN 1 AND 256),
    actor_type text COLLATE "C"
        CHECK (octet_length(actor_type) BETWEEN 1 AND 256),
    actor_id text COLLATE "C"
        CHECK (octet_length(actor_id) BETWEEN 1 AND 256),
    -- The payload's task_id is there but no usable string: the run takes no wake in.
    task_unusable boolean NOT NULL DEFAULT false,
    idempotency_key text COLLATE "C"
        CHECK (octet_length(idempotency_key) BETWEEN 1 AND 1571),
    coalesced_count integer NOT NULL DEFAULT 1
        CHECK (coalesced_count >= 1),
    degraded_reason text COLLATE "C"
        CHECK (degraded_reason IN ('count_read_failed', 'task_unattributed')),
    producer text COLLATE "C" NOT NULL DEFAULT 'other'
        CHECK (octet_length(producer) <= 256),
    traceparent text COLLATE "C",
    requested_at timestamptz NOT NULL DEFAULT now(),
    decided_at timestamptz NOT NULL DEFAULT now(),
    claimed_at timestamptz,
    finished_at timestamptz,
    CHECK (NOT task_unusable OR task_id IS NULL)
);

-- Serves the allowance's count and coalescing of wakes that name a task.
CREATE INDEX runs_by_task ON runs (organization_id, task_id, requested_at, id)
    WHERE task_id IS NOT NULL;

-- Serves coalescing of wakes that name none.
CREATE INDEX runs_queued_taskless
    ON runs (organization_id, agent_profile_id, reason, requested_at, id)
    WHERE status = 'queued' AND task_id IS NULL AND NOT task_unusable;

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
        AND NOT task_unusable
        AND (idempotency_key IS NULL OR NOT starts_with(idempotency_key, 'task_comment:'));

CREATE TABLE merged_wakes (
    wake_id uuid PRIMARY KEY,
    run_id uuid NOT NULL,
    organization_id text COLLATE "C" NOT NULL
        CHECK (octet_length(organization_id) <= 256),
    idempotency_key text COLLATE "C"
        CHECK (octet_length(idempotency_key) BETWEEN 1 AND 1571),
    payload text NOT NULL DEFAULT '{}',
    actor_type text COLLATE "C"
        CHECK (octet_length(actor_type) BETWEEN 1 AND 256),
    actor_id text COLLATE "C"
        CHECK (octet_length(actor_id) BETWEEN 1 AND 256),
    requested_at timestamptz NOT NULL DEFAULT now(),
    decided_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX merged_wakes_by_key ON merged_wakes (organization_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

CREATE TABLE refused_wakes (
    wake_id uuid PRIMARY KEY,
    organization_id text COLLATE "C" NOT NULL
        CHECK (octet_length(organization_id) <= 256),
    task_id text COLLATE "C"
        CHECK (octet_length(task_id) BETWEEN 1 AND 256),
    reason text COLLATE "C" NOT NULL
        CHECK (reason IN ('agent_paused', 'agent_stopped', 'agent_pending_approval',
                          'platform_paused', 'organization_paused', 'allowance_exhausted',
                          'capacity_exhausted')),
    record text NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT now()
);

-- Kept beyond the runs, so no foreign key.
CREATE TABLE wake_keys (
    organization_id text COLLATE "C" NOT NULL
        CHECK (octet_length(organization_id) <= 256),
    idempotency_key text COLLATE "C" NOT NULL
        CHECK (octet_length(idempotency_key) BETWEEN 1 AND 1571),
    run_id uuid NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (organization_id, idempotency_key)
);

CREATE TABLE lanes (
    stream text COLLATE "C" NOT NULL CHECK (stream <> ''),
    lane integer NOT NULL CHECK (lane >= 0),
    stream_created_at timestamptz NOT NULL,
    decided_sequence bigint NOT NULL DEFAULT 0 CHECK (decided_sequence >= 0),
    decided_instant timestamptz NOT NULL DEFAULT 'epoch',
    -- Rows may be there up to here from a stream that has been created anew since.
    known_sequence bigint NOT NULL DEFAULT 0 CHECK (known_sequence >= 0),
    PRIMARY KEY (stream, lane)
);

-- Attempts at one wake alone that have begun and not ended: what is left here when a worker
-- starts is what ended with a process.
CREATE TABLE isolated_wakes (
    wake_id uuid PRIMARY KEY,
    stream text COLLATE "C" NOT NULL,
    lane integer NOT NULL CHECK (lane >= 0),
    attempts integer NOT NULL DEFAULT 1 CHECK (attempts >= 1),
    started_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE agents (
    organization_id text COLLATE "C" NOT NULL
        CHECK (octet_length(organization_id) <= 256),
    agent_profile_id text COLLATE "C" NOT NULL
        CHECK (octet_length(agent_profile_id) BETWEEN 1 AND 256),
    status text COLLATE "C" NOT NULL
        CHECK (status IN ('idle', 'working', 'paused', 'stopped', 'pending_approval')),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (organization_id, agent_profile_id)
);

CREATE TABLE pauses (
    id text COLLATE "C" PRIMARY KEY DEFAULT gen_random_uuid()::text
        CHECK (octet_length(id) BETWEEN 1 AND 256),
    scope text COLLATE "C" NOT NULL CHECK (scope IN ('platform', 'organization')),
    organization_id text COLLATE "C" NOT NULL DEFAULT ''
        CHECK (octet_length(organization_id) <= 256),
    mode text COLLATE "C" NOT NULL DEFAULT 'drain' CHECK (mode IN ('drain', 'stop_now')),
    actor text NOT NULL DEFAULT '',
    reason text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    released_at timestamptz,
    released_by text,
    release_reason text,
    CHECK (scope = 'organization' OR organization_id = '')
);

-- At most one active pause for the platform and one for each organization; `''` is an
-- organization too, so the scope is part of it.
CREATE UNIQUE INDEX pauses_active ON pauses (scope, organization_id)
    WHERE released_at IS NULL;
