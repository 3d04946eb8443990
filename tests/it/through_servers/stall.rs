//! Hands on the database that keep a worker where a test wants it.

use sqlx::pool::PoolConnection;
use sqlx::{Postgres, Sqlite};

use super::stage::Stage;
use crate::harness::outside::Outside;

/// Nothing is recorded while this is held; reads are answered.
pub struct Stall(Held);

enum Held {
    Sqlite(PoolConnection<Sqlite>),
    Postgres(PoolConnection<Postgres>),
}

impl Stall {
    /// Takes the lock that every record needs.
    pub async fn records(stage: &Stage) -> Self {
        Self(match &stage.outside {
            Outside::Sqlite(pool) => {
                let mut held = pool.acquire().await.unwrap();
                sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut *held).await.unwrap();
                Held::Sqlite(held)
            }
            Outside::Postgres(pool) => {
                let mut held = pool.acquire().await.unwrap();
                let lock = "BEGIN; LOCK TABLE runs IN EXCLUSIVE MODE";
                sqlx::raw_sql(lock).execute(&mut *held).await.unwrap();
                Held::Postgres(held)
            }
        })
    }

    /// Lets them through.
    pub async fn release(self) {
        let end = "ROLLBACK";
        match self.0 {
            Held::Sqlite(mut held) => sqlx::raw_sql(end).execute(&mut *held).await.map(drop),
            Held::Postgres(mut held) => sqlx::raw_sql(end).execute(&mut *held).await.map(drop),
        }
        .unwrap();
    }
}

/// Runs of one agent are never stored: the insert takes until its deadline ends it. Every other
/// run is stored as ever.
pub struct StalledRuns {
    /// What the insert waits for, where the database can wait.
    held: Option<PoolConnection<Postgres>>,
}

/// See [`StalledRuns`].
pub async fn runs_of(stage: &Stage, agent: &str) -> StalledRuns {
    let (sql, held) = match &stage.outside {
        Outside::Sqlite(_) => (
            format!(
                "CREATE TRIGGER stall BEFORE INSERT ON runs WHEN new.agent_profile_id = '{agent}'
                 BEGIN
                     SELECT count(*) FROM (
                         WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)
                         SELECT x FROM c);
                 END"
            ),
            None,
        ),
        Outside::Postgres(pool) => {
            let mut held = pool.acquire().await.unwrap();
            sqlx::raw_sql("SELECT pg_advisory_lock(1)").execute(&mut *held).await.unwrap();
            let sql = format!(
                "CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS
                     'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN new; END';
                 CREATE TRIGGER stall BEFORE INSERT ON runs FOR EACH ROW
                     WHEN (new.agent_profile_id = '{agent}') EXECUTE FUNCTION stall()"
            );
            (sql, Some(held))
        }
    };
    stage.outside.execute(&sql).await;
    StalledRuns { held }
}

impl StalledRuns {
    /// They are stored like every other.
    pub async fn no_more(self, stage: &Stage) {
        match self.held {
            Some(held) => held.close().await.unwrap(),
            None => stage.outside.execute("DROP TRIGGER stall").await,
        }
    }
}
