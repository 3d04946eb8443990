-- The role that answers operators, `control.database_url` of `wakegate run` and of the commands
-- `pause`, `resume`, `agents`, `limits` and `status`: it makes and ends pauses, sets the status of
-- agents and the limits of organizations, and counts. Run it in wakegate's database as the owner of the tables, after every `wakegate migrate`:
-- psql -d wakegate -f ops/postgres/control-role.sql
-- Then give it a way in: ALTER ROLE wakegate_control PASSWORD '...', or a line in pg_hba.conf.

DO $$
BEGIN
    CREATE ROLE wakegate_control LOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END
$$;

GRANT USAGE ON SCHEMA public TO wakegate_control;
GRANT SELECT ON _sqlx_migrations TO wakegate_control;

-- What is counted; payloads and records are nothing that has to be read for it.
GRANT SELECT (id, status) ON runs TO wakegate_control;
GRANT SELECT (wake_id, reason) ON refused_wakes TO wakegate_control;

-- A pause is made and ended, and stays on record.
GRANT SELECT, INSERT ON pauses TO wakegate_control;
GRANT UPDATE (released_at, released_by, release_reason) ON pauses TO wakegate_control;

-- What an organization lowers, and how much is used.
GRANT SELECT, INSERT, UPDATE ON organization_limits TO wakegate_control;
GRANT SELECT ON queue_platform, queue_organizations, queue_projects, intake_slots
    TO wakegate_control;

GRANT SELECT, INSERT ON agents TO wakegate_control;
GRANT UPDATE (status, actor, reason, updated_at) ON agents TO wakegate_control;
