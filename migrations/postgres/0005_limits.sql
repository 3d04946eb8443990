-- What the intake rate is told by: admitted wakes of each producer in each organization, by ten
-- seconds of their request instants. Kept as long as wakes can be decided; see docs/limits.md.
CREATE TABLE intake_slots (
    organization_id text COLLATE "C" NOT NULL
        CHECK (octet_length(organization_id) <= 256),
    producer text COLLATE "C" NOT NULL
        CHECK (producer IN ('task_mutation', 'task_lifecycle', 'onboarding', 'recovery_sweep',
                            'workflow_auto_start', 'other')),
    slot_at timestamptz NOT NULL,
    admitted bigint NOT NULL CHECK (admitted >= 0),
    PRIMARY KEY (organization_id, producer, slot_at)
) WITH (fillfactor = 50);

-- For whoever deletes what is old.
CREATE INDEX intake_slots_by_age ON intake_slots (slot_at);
