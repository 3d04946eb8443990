-- The role that answers runners and ends what is overdue, `queue.database_url` of `wakegate run` and of
-- `wakegate cancel`: it claims, starts, ends and cancels runs, reads what they are to do, and publishes
-- what became of them. Run it in wakegate's database as the owner of the tables, after every
-- `wakegate migrate`: psql -d wakegate -f ops/postgres/queue-role.sql
-- Then give it a way in: ALTER ROLE wakegate_queue PASSWORD '...', or a line in pg_hba.conf.

DO $$
BEGIN
    CREATE ROLE wakegate_queue LOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END
$$;

GRANT USAGE ON SCHEMA public TO wakegate_queue;
GRANT SELECT ON _sqlx_migrations, pauses TO wakegate_queue;

-- How a run stands, and nothing of what it is; none is made and none is deleted.
GRANT SELECT ON runs TO wakegate_queue;
GRANT UPDATE (status, claimed_at, runner_id, claim_id, fencing_token, lease_expires_at, started_at,
              finished_at, ended_reason, cancel_requested_at, cancel_actor, cancel_reason)
    ON runs TO wakegate_queue;
GRANT EXECUTE ON FUNCTION
    queue_claim(uuid, text, integer, text[], timestamptz, timestamptz, bigint, bigint, integer)
    TO wakegate_queue;

-- How deep the queue is; the database keeps it by itself.
GRANT SELECT ON queue_platform, queue_organizations, queue_projects TO wakegate_queue;

-- What is published is deleted.
GRANT SELECT, DELETE ON run_events TO wakegate_queue;
