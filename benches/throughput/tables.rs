//! Databases that already hold something: cost has to grow with the work, not with the table.

use std::fmt;

use sqlx::{AssertSqlSafe, Row as _};

use crate::Result;
use crate::database::Database;

/// Rows of one statement while a table is filled.
const CHUNK: usize = 500_000;

/// What a database holds before the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Table {
    /// Nothing, directly after `migrate`, and statistics are never taken.
    Fresh,
    /// Finished runs, of which the planner has no statistics.
    Unanalysed,
    /// The same after `ANALYZE`.
    Analysed,
    /// Queued runs, too old to be merged into.
    Queued,
    /// Many finished runs.
    Grown,
    /// Very many.
    Large,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fresh => "fresh",
            Self::Unanalysed => "unanalysed",
            Self::Analysed => "analysed",
            Self::Queued => "queued",
            Self::Grown => "grown",
            Self::Large => "large",
        })
    }
}

impl Table {
    pub(crate) const ALL: [Self; 6] =
        [Self::Fresh, Self::Unanalysed, Self::Analysed, Self::Queued, Self::Grown, Self::Large];

    /// How many runs it holds.
    pub(crate) fn rows(self, quick: bool) -> usize {
        match (self, quick) {
            (Self::Fresh, _) => 0,
            (Self::Unanalysed | Self::Analysed, false) => 200_000,
            (Self::Queued, false) => 100_000,
            (Self::Grown, false) => 1_000_000,
            (Self::Large, false) => 5_000_000,
            (Self::Unanalysed | Self::Analysed | Self::Queued, true) => 5_000,
            (Self::Grown, true) => 20_000,
            (Self::Large, true) => 50_000,
        }
    }

    /// Whether a database is filled once and measured in every round.
    pub(crate) fn is_kept(self) -> bool {
        matches!(self, Self::Grown | Self::Large)
    }

    /// Fills an empty database.
    pub(crate) async fn fill(self, database: &Database, quick: bool) -> Result<()> {
        let rows = self.rows(quick);
        let status = if self == Self::Queued { "queued" } else { "succeeded" };
        // Building an index anew would count rows, which is a statistic.
        let indices = if self.is_kept() { drop_indices(database).await? } else { Vec::new() };
        for from in (0..rows).step_by(CHUNK) {
            let to = (from + CHUNK).min(rows);
            let (postgres, sqlite) =
                (postgres_runs(from, to, status), sqlite_runs(from, to, status));
            database.execute(&postgres, &sqlite).await?;
        }
        let keys = "INSERT INTO wake_keys (organization_id, idempotency_key, run_id, requested_at) \
                    SELECT organization_id, idempotency_key, id, requested_at FROM runs \
                    ORDER BY organization_id, idempotency_key";
        database.execute(keys, keys).await?;
        for index in indices {
            database.execute(&index, &index).await?;
        }
        match self {
            Self::Fresh | Self::Unanalysed => {
                let tables = ["runs", "wake_keys", "merged_wakes", "refused_wakes"];
                for table in tables {
                    let off = format!("ALTER TABLE {table} SET (autovacuum_enabled = false)");
                    database.execute(&off, "SELECT 1").await?;
                }
                Ok(())
            }
            Self::Analysed | Self::Queued | Self::Grown | Self::Large => {
                database.execute("VACUUM ANALYZE", "ANALYZE").await
            }
        }
    }
}

/// Drops what indices `runs` has beside its key, and gives what makes them again: filling a table
/// and then sorting is faster than keeping an index up to date.
async fn drop_indices(database: &Database) -> Result<Vec<String>> {
    let listing = (
        "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'runs' \
         AND indexname NOT IN (SELECT conname FROM pg_constraint)",
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'runs' \
         AND sql IS NOT NULL",
    );
    let indices: Vec<(String, String)> = match database {
        Database::Postgres { pool, .. } => sqlx::query(AssertSqlSafe(listing.0))
            .fetch_all(pool)
            .await?
            .iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
            .collect::<Result<_>>()?,
        Database::Sqlite { pool, .. } => sqlx::query(AssertSqlSafe(listing.1))
            .fetch_all(pool)
            .await?
            .iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
            .collect::<Result<_>>()?,
    };
    let mut definitions = Vec::new();
    for (name, definition) in indices {
        let drop = format!("DROP INDEX {name}");
        database.execute(&drop, &drop).await?;
        definitions.push(definition);
    }
    Ok(definitions)
}

/// Runs of the last months, as long as those of the workload, with ids in order of time.
fn postgres_runs(from: usize, to: usize, status: &str) -> String {
    format!(
        "INSERT INTO runs (id, organization_id, project_id, agent_profile_id, reason, status, \
         payload, task_id, actor_type, actor_id, idempotency_key, producer, requested_at, \
         decided_at) \
         SELECT (lpad(to_hex(1750000000000 + n), 12, '0') || '70008000' \
                 || lpad(to_hex(n), 12, '0'))::uuid, \
             'org-' || lpad((n % 64)::text, 4, '0'), 'project-01', agent, 'task_assigned', \
             '{status}', '{{\"reason\":\"task_assigned\",\"task_id\":\"' || task \
             || '\",\"organization_id\":\"org-0000\",\"project_id\":\"project-01\",' \
             || '\"actor_type\":\"agent\",\"actor_id\":\"' || task || '\"}}', \
             task, 'agent', task, 'task_assigned:' || task || ':' || agent || ':1', \
             'task_mutation', at, at \
         FROM (SELECT n, md5('task' || n)::uuid::text AS task, md5('agent' || n)::uuid::text \
                   AS agent, to_timestamp((1750000000000 + n) / 1000.0) AS at \
               FROM generate_series({from}::bigint, {to}::bigint - 1) AS n OFFSET 0) AS made"
    )
}

fn sqlite_runs(from: usize, to: usize, status: &str) -> String {
    let random = "lower(hex(randomblob(18)))";
    format!(
        "WITH RECURSIVE counted (n) AS ( \
             SELECT {from} WHERE {from} < {to} UNION ALL SELECT n + 1 FROM counted WHERE n + 1 < {to} \
         ) \
         INSERT INTO runs (id, organization_id, project_id, agent_profile_id, reason, status, \
         payload, task_id, actor_type, actor_id, idempotency_key, producer, requested_at, \
         decided_at) \
         SELECT substr(printf('%012x', 1750000000000 + n), 1, 8) || '-' \
                || substr(printf('%012x', 1750000000000 + n), 9, 4) || '-7000-8000-' \
                || printf('%012x', n), \
             printf('org-%04d', n % 64), 'project-01', {random}, 'task_assigned', '{status}', \
             '{{\"reason\":\"task_assigned\",\"task_id\":\"' || {random} \
             || '\",\"organization_id\":\"org-0000\",\"project_id\":\"project-01\",' \
             || '\"actor_type\":\"agent\",\"actor_id\":\"' || {random} || '\"}}', \
             {random}, 'agent', {random}, 'task_assigned:' || {random} || ':' || {random} || ':1', \
             'task_mutation', (1750000000000 + n) * 1000, (1750000000000 + n) * 1000 \
         FROM counted"
    )
}
