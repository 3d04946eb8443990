//! A SQLite file in memory, where the machine has such a place, and what is in it.

use std::path::Path;

use sqlx::{AssertSqlSafe, SqlitePool};
use tempfile::TempDir;
use wakegate::store::Database as _;
use wakegate::store::queue::RunStatus;
use wakegate::store::sqlite::SqliteStore;

use crate::harness::outside::Outside;
use crate::queue_store::given::{OPTIONS, Queued, assert_counts, insertion};

const MEMORY: &str = "/dev/shm";

pub struct Queue {
    pub store: SqliteStore,
    pool: SqlitePool,
    outside: Outside,
    _directory: TempDir,
}

impl Queue {
    pub async fn open() -> Self {
        let memory = Path::new(MEMORY);
        let directory = if memory.is_dir() {
            tempfile::tempdir_in(memory).unwrap()
        } else {
            tempfile::tempdir().unwrap()
        };
        let url = format!("sqlite://{}", directory.path().join("queue.db").display());
        let store = SqliteStore::connect(&url, &OPTIONS).unwrap();
        store.migrate().await.unwrap();
        let pool = SqlitePool::connect_lazy(&url).unwrap();
        Self { store, outside: Outside::Sqlite(pool.clone()), pool, _directory: directory }
    }

    pub async fn execute(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&self.pool).await.unwrap();
    }

    pub async fn insert(&self, runs: &[Queued]) {
        self.execute(&insertion(&self.outside, runs)).await;
    }

    /// Every run: id, status and token, by id.
    pub async fn runs(&self) -> Vec<(u128, RunStatus, u64)> {
        let sql = "SELECT id, status, fencing_token FROM runs ORDER BY id";
        let rows: Vec<(String, String, i64)> =
            sqlx::query_as(sql).fetch_all(&self.pool).await.unwrap();
        rows.into_iter()
            .map(|(id, status, token)| {
                let id: uuid::Uuid = id.parse().unwrap();
                let status = RunStatus::parse(&status).unwrap();
                (id.as_u128(), status, u64::try_from(token).unwrap())
            })
            .collect()
    }

    pub async fn assert_counts(&self, when: &str) {
        assert_counts(&self.outside, when).await;
    }
}
