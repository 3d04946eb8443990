//! A database of its own for each measurement, with the project's schema.

use std::fmt;
use std::path::PathBuf;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, PgPool, SqlitePool};
use tempfile::TempDir;
use wakegate::store::postgres::PostgresStore;
use wakegate::store::sqlite::SqliteStore;
use wakegate::store::{Database as _, StoreOptions};

use crate::Result;
use crate::postgres::Cluster;
use crate::workloads::Outcomes;

const TEMPLATE: &str = "migrated";

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Dialect {
    Postgres,
    Sqlite,
}

impl Dialect {
    pub(crate) const BOTH: [Self; 2] = [Self::Postgres, Self::Sqlite];
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Postgres => "postgres",
            Self::Sqlite => "sqlite",
        })
    }
}

/// A migrated database, empty at first, with connections of the benchmark's own.
pub(crate) enum Database {
    Postgres { name: String, url: String, pool: PgPool },
    Sqlite { directory: TempDir, url: String, pool: SqlitePool },
}

/// The benchmark's connections to a database.
#[derive(Clone)]
pub(crate) enum Connections {
    Postgres(PgPool),
    Sqlite(SqlitePool),
}

impl Database {
    /// Makes one. `connections` are the benchmark's; SQLite writes on one.
    pub(crate) async fn create(
        dialect: Dialect,
        cluster: &Cluster,
        name: &str,
        connections: u32,
    ) -> Result<Self> {
        match dialect {
            Dialect::Postgres => {
                let create = format!("CREATE DATABASE {name} TEMPLATE {TEMPLATE}");
                cluster.execute("postgres", &[&create]).await?;
                let pool = cluster.pool(name, connections).await?;
                Ok(Self::Postgres { name: name.to_owned(), url: cluster.url(name), pool })
            }
            Dialect::Sqlite => {
                let directory = tempfile::Builder::new().prefix("wakegate-bench-").tempdir()?;
                let file = directory.path().join("wakegate.db");
                let url = format!("sqlite://{}", file.display());
                SqliteStore::connect(&url, &StoreOptions::default())?.migrate().await?;
                let pool = sqlite_pool(file).await?;
                Ok(Self::Sqlite { directory, url, pool })
            }
        }
    }

    /// The database that those in PostgreSQL are copies of.
    pub(crate) async fn prepare(cluster: &Cluster) -> Result<()> {
        cluster.execute("postgres", &[&format!("CREATE DATABASE {TEMPLATE}")]).await?;
        let store = PostgresStore::connect(&cluster.url(TEMPLATE), &StoreOptions::default())?;
        store.migrate().await?;
        Ok(())
    }

    /// As the worker is given it.
    pub(crate) fn url(&self) -> &str {
        match self {
            Self::Postgres { url, .. } | Self::Sqlite { url, .. } => url,
        }
    }

    /// The same connections for somebody else.
    pub(crate) fn connections(&self) -> Connections {
        match self {
            Self::Postgres { pool, .. } => Connections::Postgres(pool.clone()),
            Self::Sqlite { pool, .. } => Connections::Sqlite(pool.clone()),
        }
    }

    /// Runs the statement of the dialect in use.
    pub(crate) async fn execute(&self, postgres: &str, sqlite: &str) -> Result<()> {
        match self {
            Self::Postgres { pool, .. } => {
                sqlx::raw_sql(AssertSqlSafe(postgres.to_owned())).execute(pool).await?;
            }
            Self::Sqlite { pool, .. } => {
                sqlx::raw_sql(AssertSqlSafe(sqlite.to_owned())).execute(pool).await?;
            }
        }
        Ok(())
    }

    /// Leaves nothing of what came before for the measurement to write back to the disk.
    pub(crate) async fn checkpoint(&self) -> Result<()> {
        self.execute("CHECKPOINT", "PRAGMA wal_checkpoint(TRUNCATE)").await
    }

    /// One number.
    pub(crate) async fn number(&self, sql: &str) -> Result<u64> {
        let sql = AssertSqlSafe(sql.to_owned());
        let number: i64 = match self {
            Self::Postgres { pool, .. } => sqlx::query_scalar(sql).fetch_one(pool).await?,
            Self::Sqlite { pool, .. } => sqlx::query_scalar(sql).fetch_one(pool).await?,
        };
        Ok(u64::try_from(number)?)
    }

    /// What it takes on its disk, and how much PostgreSQL has ever logged, in bytes.
    pub(crate) async fn bytes(&self) -> Result<(u64, u64)> {
        let size = match self {
            Self::Postgres { .. } => "SELECT pg_database_size(current_database())",
            Self::Sqlite { .. } => {
                "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
            }
        };
        let logged = match self {
            Self::Postgres { .. } => "SELECT (pg_current_wal_lsn() - '0/0')::bigint",
            Self::Sqlite { .. } => "SELECT 0",
        };
        Ok((self.number(size).await?, self.number(logged).await?))
    }

    /// What the tables hold. A deduplicated wake leaves no row.
    pub(crate) async fn rows(&self) -> Result<Outcomes> {
        Ok(Outcomes {
            queued: self.number("SELECT count(*) FROM runs").await?,
            coalesced: self.number("SELECT count(*) FROM merged_wakes").await?,
            refused: self.number("SELECT count(*) FROM refused_wakes").await?,
            deduplicated: 0,
        })
    }

    /// Deletes it.
    pub(crate) async fn delete(self, cluster: &Cluster) -> Result<()> {
        match self {
            Self::Postgres { name, pool, .. } => {
                pool.close().await;
                let drop = format!("DROP DATABASE {name} WITH (FORCE)");
                cluster.execute("postgres", &[&drop]).await
            }
            Self::Sqlite { directory, pool, .. } => {
                pool.close().await;
                Ok(directory.close()?)
            }
        }
    }
}

/// With the pragmas that the worker sets.
async fn sqlite_pool(file: PathBuf) -> Result<SqlitePool> {
    let options = SqliteConnectOptions::new()
        .filename(file)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        // As the worker's own connections have it.
        .pragma("wal_autocheckpoint", "8000")
        .busy_timeout(std::time::Duration::from_secs(5));
    let pool = SqlitePoolOptions::new().max_connections(1).test_before_acquire(false);
    Ok(pool.connect_with(options).await?)
}
