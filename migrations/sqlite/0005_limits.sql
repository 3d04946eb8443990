-- What the intake rate is told by: admitted wakes of each producer in each organization, by ten
-- seconds of their request instants. Kept as long as wakes can be decided; see docs/limits.md.
CREATE TABLE intake_slots (
    organization_id TEXT NOT NULL CHECK (length(CAST(organization_id AS BLOB)) <= 256),
    producer TEXT NOT NULL
        CHECK (producer IN ('task_mutation', 'task_lifecycle', 'onboarding', 'recovery_sweep',
                            'workflow_auto_start', 'other')),
    slot_at INTEGER NOT NULL,
    admitted INTEGER NOT NULL CHECK (admitted >= 0),
    PRIMARY KEY (organization_id, producer, slot_at)
) STRICT, WITHOUT ROWID;

-- For whoever deletes what is old.
CREATE INDEX intake_slots_by_age ON intake_slots (slot_at);
