-- The role that `wakegate run` connects as: it reads and writes rows and makes, changes or drops
-- nothing else. Run it in wakegate's database as the owner of the tables, after every
-- `wakegate migrate`, which needs the owner: psql -d wakegate -f ops/postgres/run-role.sql
-- Then give it a way in: ALTER ROLE wakegate_run PASSWORD '...', or a line in pg_hba.conf.

DO $$
BEGIN
    CREATE ROLE wakegate_run LOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END
$$;

GRANT USAGE ON SCHEMA public TO wakegate_run;

-- Which schema this is, and what operators decide: read only.
GRANT SELECT ON _sqlx_migrations, agents, pauses TO wakegate_run;
GRANT SELECT ON counted_runs, mergeable_runs TO wakegate_run;

-- A run is inserted and may take wakes in; nothing but that is changed of it, and none is deleted.
GRANT SELECT, INSERT ON runs TO wakegate_run;
GRANT UPDATE (payload, task_id, actor_type, actor_id, task_unusable, coalesced_count, queue_class)
    ON runs TO wakegate_run;

-- How deep the queue is; the database keeps it by itself.
GRANT SELECT ON queue_platform, queue_organizations, queue_projects, organization_limits
    TO wakegate_run;

-- What the intake rate is told by; the database counts it when a batch that claims room commits.
GRANT SELECT ON intake_slots TO wakegate_run;
GRANT SELECT (id), INSERT ON room_claims TO wakegate_run;

-- What was decided stays.
GRANT SELECT, INSERT ON merged_wakes, refused_wakes, shadowed_wakes, wake_keys TO wakegate_run;

-- The lanes' cursors, and attempts at one wake alone, which are taken back.
GRANT SELECT, INSERT, UPDATE ON lanes TO wakegate_run;
GRANT SELECT, INSERT, UPDATE, DELETE ON isolated_wakes TO wakegate_run;
