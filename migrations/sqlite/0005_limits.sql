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

-- How fast a queue drains, by the machine's clock: what left it in one minute and in the one before.
ALTER TABLE queue_platform ADD COLUMN drain_minute INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue_platform ADD COLUMN drained INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue_platform ADD COLUMN drained_before INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue_organizations ADD COLUMN drain_minute INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue_organizations ADD COLUMN drained INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue_organizations ADD COLUMN drained_before INTEGER NOT NULL DEFAULT 0;

CREATE TRIGGER queue_platform_drains AFTER UPDATE OF queued ON queue_platform
WHEN NEW.queued < OLD.queued
BEGIN
    UPDATE queue_platform
    SET drained_before = CASE CAST(strftime('%s', 'now') AS INTEGER) / 60 - drain_minute
            WHEN 0 THEN drained_before
            WHEN 1 THEN drained
            ELSE 0
        END,
        drained = OLD.queued - NEW.queued
            + CASE WHEN drain_minute = CAST(strftime('%s', 'now') AS INTEGER) / 60
                THEN drained ELSE 0 END,
        drain_minute = CAST(strftime('%s', 'now') AS INTEGER) / 60;
END;

CREATE TRIGGER queue_organizations_drain AFTER UPDATE OF queued ON queue_organizations
WHEN NEW.queued < OLD.queued
BEGIN
    UPDATE queue_organizations
    SET drained_before = CASE CAST(strftime('%s', 'now') AS INTEGER) / 60 - drain_minute
            WHEN 0 THEN drained_before
            WHEN 1 THEN drained
            ELSE 0
        END,
        drained = OLD.queued - NEW.queued
            + CASE WHEN drain_minute = CAST(strftime('%s', 'now') AS INTEGER) / 60
                THEN drained ELSE 0 END,
        drain_minute = CAST(strftime('%s', 'now') AS INTEGER) / 60
    WHERE organization_id = NEW.organization_id;
END;
