//! What others do to the tables: runners that claim, operators that pause, rows from outside.

use serde_json::Value;
use sqlx::postgres::PgPool;
use sqlx::sqlite::SqlitePool;

/// Plain SQL on a database that a store under test uses.
#[derive(Clone)]
pub enum Outside {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

/// A run as a runner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    pub id: String,
    pub organization_id: String,
    pub agent_profile_id: String,
    pub status: String,
    pub payload: String,
    pub task_id: Option<String>,
    pub actor_type: Option<String>,
    pub actor_id: Option<String>,
    pub idempotency_key: Option<String>,
    pub coalesced_count: i64,
    pub degraded_reason: Option<String>,
    /// Microseconds since the epoch.
    pub requested_at: i64,
}

/// A row of `runs` that wakegate did not write.
#[derive(Debug, Clone)]
pub struct OutsideRun<'a> {
    pub id: u128,
    pub organization: &'a str,
    pub agent: &'a str,
    pub reason: &'a str,
    pub status: &'a str,
    pub task: Option<&'a str>,
    pub actor_type: Option<&'a str>,
    pub key: Option<&'a str>,
    pub at: i64,
}

impl Default for OutsideRun<'_> {
    fn default() -> Self {
        Self {
            id: 1,
            organization: "acme",
            agent: "builder",
            reason: "task_assigned",
            status: "queued",
            task: Some("t1"),
            actor_type: Some("agent"),
            key: None,
            at: super::world::T0,
        }
    }
}

impl Outside {
    /// Runs statements that both dialects understand.
    pub async fn execute(&self, sql: &str) {
        let sql = match self {
            // A connection that has not seen what another one renamed looks first.
            Self::Sqlite(_) => format!("SELECT 1 FROM sqlite_schema LIMIT 1; {sql}"),
            Self::Postgres(_) => sql.to_owned(),
        };
        let sql = sqlx::AssertSqlSafe(sql);
        match self {
            Self::Sqlite(pool) => sqlx::raw_sql(sql).execute(pool).await.map(|_| ()),
            Self::Postgres(pool) => sqlx::raw_sql(sql).execute(pool).await.map(|_| ()),
        }
        .unwrap();
    }

    /// One number.
    pub async fn number(&self, sql: &str) -> i64 {
        let sql = sqlx::AssertSqlSafe(sql.to_owned());
        match self {
            Self::Sqlite(pool) => sqlx::query_scalar(sql).fetch_one(pool).await,
            Self::Postgres(pool) => sqlx::query_scalar(sql).fetch_one(pool).await,
        }
        .unwrap()
    }

    /// Rows of `runs`.
    pub async fn run_count(&self) -> i64 {
        self.number("SELECT count(*) FROM runs").await
    }

    /// Every run, oldest first.
    pub async fn runs(&self) -> Vec<RunRow> {
        const COLUMNS: &str = "organization_id, agent_profile_id, status, payload, task_id, \
            actor_type, actor_id, idempotency_key, degraded_reason";
        type Row = (
            String,
            String,
            String,
            String,
            Option<String>,
            Option<String>,
            Option<String>,
            Option<String>,
            Option<String>,
            String,
            i64,
            i64,
        );
        let rows: Vec<Row> = match self {
            Self::Sqlite(pool) => {
                let sql = format!(
                    "SELECT {COLUMNS}, id, coalesced_count, requested_at \
                     FROM runs ORDER BY requested_at, id"
                );
                sqlx::query_as(sqlx::AssertSqlSafe(sql)).fetch_all(pool).await.unwrap()
            }
            Self::Postgres(pool) => {
                let sql = format!(
                    "SELECT {COLUMNS}, id::text, coalesced_count::bigint, \
                     (extract(epoch FROM requested_at) * 1000000)::bigint \
                     FROM runs ORDER BY requested_at, id"
                );
                sqlx::query_as(sqlx::AssertSqlSafe(sql)).fetch_all(pool).await.unwrap()
            }
        };
        rows.into_iter()
            .map(|row| RunRow {
                organization_id: row.0,
                agent_profile_id: row.1,
                status: row.2,
                payload: row.3,
                task_id: row.4,
                actor_type: row.5,
                actor_id: row.6,
                idempotency_key: row.7,
                degraded_reason: row.8,
                id: row.9,
                coalesced_count: row.10,
                requested_at: row.11,
            })
            .collect()
    }

    /// The run that an outcome record names.
    pub async fn run_of(&self, record: &Value) -> RunRow {
        let id = record["run_id"].as_str().expect("the record names a run").to_owned();
        let found = self.runs().await.into_iter().find(|run| run.id == id);
        found.unwrap_or_else(|| panic!("no run {id}"))
    }

    /// A runner takes every queued run.
    pub async fn claim_all(&self) {
        self.execute("UPDATE runs SET status = 'claimed' WHERE status = 'queued'").await;
    }

    /// An operator sets an agent's status.
    pub async fn set_agent(&self, organization: &str, agent: &str, status: &str) {
        self.execute(&format!(
            "INSERT INTO agents (organization_id, agent_profile_id, status) \
             VALUES ('{organization}', '{agent}', '{status}') \
             ON CONFLICT (organization_id, agent_profile_id) DO UPDATE SET status = '{status}'"
        ))
        .await;
    }

    /// An operator pauses an organization, or the platform by `None`.
    pub async fn pause(&self, id: &str, organization: Option<&str>) {
        let (scope, organization) =
            organization.map_or(("platform", ""), |organization| ("organization", organization));
        self.execute(&format!(
            "INSERT INTO pauses (id, scope, organization_id, mode, actor, reason) \
             VALUES ('{id}', '{scope}', '{organization}', 'drain', 'ann', 'test')"
        ))
        .await;
    }

    /// An operator ends every pause.
    pub async fn resume_all(&self) {
        self.execute("UPDATE pauses SET released_at = created_at WHERE released_at IS NULL").await;
    }

    /// Drops a view, so that the one gate that reads it fails, and returns what makes it again.
    pub async fn take_view(&self, view: &str) -> String {
        let definition: String = match self {
            Self::Sqlite(pool) => {
                let sql = "SELECT sql FROM sqlite_schema WHERE name = ?";
                sqlx::query_scalar(sql).bind(view).fetch_one(pool).await.unwrap()
            }
            Self::Postgres(pool) => {
                let sql = "SELECT pg_get_viewdef($1::regclass)";
                let body: String =
                    sqlx::query_scalar(sql).bind(view).fetch_one(pool).await.unwrap();
                format!("CREATE VIEW {view} AS {body}")
            }
        };
        self.execute(&format!("DROP VIEW {view}")).await;
        definition
    }

    /// A row from outside, with the columns the contract lists and nothing else.
    pub async fn insert_run(&self, run: &OutsideRun<'_>) {
        let text = |value: Option<&str>| {
            value.map_or("NULL".to_owned(), |value| format!("'{}'", value.replace('\'', "''")))
        };
        let id = uuid::Uuid::from_u128(run.id);
        let at = match self {
            Self::Sqlite(_) => run.at.to_string(),
            Self::Postgres(_) => {
                format!("timestamptz 'epoch' + interval '{} microseconds'", run.at)
            }
        };
        let payload = serde_json::json!({ "task_id": run.task, "actor_type": run.actor_type });
        let mut sql = format!(
            "INSERT INTO runs (id, organization_id, agent_profile_id, reason, status, payload, \
             task_id, actor_type, idempotency_key, requested_at) VALUES \
             ('{id}', '{}', '{}', '{}', '{}', '{payload}', {}, {}, {}, {at});",
            run.organization,
            run.agent,
            run.reason,
            run.status,
            text(run.task),
            text(run.actor_type),
            text(run.key),
        );
        if let Some(key) = run.key {
            sql += &format!(
                "INSERT INTO wake_keys (organization_id, idempotency_key, run_id, requested_at) \
                 VALUES ('{}', '{key}', '{id}', {at});",
                run.organization
            );
        }
        self.execute(&sql).await;
    }
}
