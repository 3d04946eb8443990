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

-- How fast a queue drains, by the database's clock: what left it in one minute and in the one before.
ALTER TABLE queue_platform
    ADD COLUMN drain_minute bigint NOT NULL DEFAULT 0,
    ADD COLUMN drained bigint NOT NULL DEFAULT 0,
    ADD COLUMN drained_before bigint NOT NULL DEFAULT 0;
ALTER TABLE queue_organizations
    ADD COLUMN drain_minute bigint NOT NULL DEFAULT 0,
    ADD COLUMN drained bigint NOT NULL DEFAULT 0,
    ADD COLUMN drained_before bigint NOT NULL DEFAULT 0;

CREATE FUNCTION queue_drains() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    this_minute bigint := floor(extract(epoch FROM now()) / 60);
BEGIN
    IF NEW.drain_minute = this_minute THEN
        NEW.drained := NEW.drained + OLD.queued - NEW.queued;
    ELSE
        NEW.drained_before :=
            CASE WHEN NEW.drain_minute = this_minute - 1 THEN NEW.drained ELSE 0 END;
        NEW.drained := OLD.queued - NEW.queued;
        NEW.drain_minute := this_minute;
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER queue_platform_drains BEFORE UPDATE ON queue_platform
    FOR EACH ROW WHEN (NEW.queued < OLD.queued) EXECUTE FUNCTION queue_drains();
CREATE TRIGGER queue_organizations_drain BEFORE UPDATE ON queue_organizations
    FOR EACH ROW WHEN (NEW.queued < OLD.queued) EXECUTE FUNCTION queue_drains();

-- What left in the last minute or two, and how many milliseconds those are.
CREATE FUNCTION drained_lately(drain_minute bigint, drained bigint, drained_before bigint)
RETURNS bigint LANGUAGE sql STABLE
RETURN CASE floor(extract(epoch FROM now()) / 60)::bigint - drain_minute
    WHEN 0 THEN drained + drained_before
    WHEN 1 THEN drained
    ELSE 0
END;

CREATE FUNCTION drain_millis() RETURNS bigint LANGUAGE sql STABLE
RETURN 60000 + (extract(epoch FROM now()) * 1000)::bigint % 60000;
