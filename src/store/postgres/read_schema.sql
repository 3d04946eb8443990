SELECT version, success FROM _sqlx_migrations ORDER BY version
