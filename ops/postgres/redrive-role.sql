-- The role of `wakegate redrive`, as WAKEGATE_CONTROL_DATABASE_URL of that command: it reads what was
-- refused and keeps what is published again. Run it in wakegate's database as the owner of the tables,
-- after every `wakegate migrate`: psql -d wakegate -f ops/postgres/redrive-role.sql
-- Then give it a way in: ALTER ROLE wakegate_redrive PASSWORD '...', or a line in pg_hba.conf.

DO $$
BEGIN
    CREATE ROLE wakegate_redrive LOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END
$$;

GRANT USAGE ON SCHEMA public TO wakegate_redrive;
GRANT SELECT ON _sqlx_migrations TO wakegate_redrive;

-- Records of refusals hold ids and no payload.
GRANT SELECT ON refused_wakes TO wakegate_redrive;

-- A record is made and finished, and stays.
GRANT SELECT, INSERT ON redrives TO wakegate_redrive;
GRANT UPDATE (published_at, published_sequence, published_wake_id) ON redrives TO wakegate_redrive;
