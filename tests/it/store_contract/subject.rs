//! The stores under test, and what others do to them.

use std::time::Duration;

use sqlx::sqlite::SqlitePool;
use tempfile::TempDir;
use wakegate::admission::GateName;
use wakegate::admission::facts::AgentStatus;
use wakegate::store::memory::{MemoryRun, MemoryStore, RunStatus};
use wakegate::store::postgres::PostgresStore;
use wakegate::store::sqlite::SqliteStore;
use wakegate::store::{Store, StoreOptions};
use wakegate::wake::{
    ActorId, ActorType, IdempotencyKey, Payload, Producer, Reason, RunId, TaskId, UtcMicros,
};

use super::agreeing::Agreeing;
use super::given::{agent, organization, payload};
use crate::harness::outside::{Outside, RunRow};
use crate::harness::postgres::TestDatabase;
use crate::harness::{postgres, sqlite};
use crate::simulation::fakes;
use crate::simulation::store::SimStore;

/// Deadlines long enough for a busy machine, and few connections, so that they are shared.
pub const OPTIONS: StoreOptions = StoreOptions {
    connections_max: 6,
    read_deadline: Duration::from_secs(20),
    record_deadline: Duration::from_secs(20),
};

/// A run from outside: of `acme`, for `builder`, unless a test says otherwise.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    pub id: RunId,
    pub organization: &'a str,
    pub agent: &'a str,
    pub reason: &'a str,
    pub status: RunStatus,
    pub payload: &'a str,
    pub key: Option<&'a str>,
    pub coalesced_count: u32,
    pub at: UtcMicros,
}

impl Row<'_> {
    pub fn new(number: u64, at: UtcMicros) -> Self {
        Row {
            id: super::given::id(number),
            organization: "acme",
            agent: "builder",
            reason: "task_assigned",
            status: RunStatus::Queued,
            payload: r#"{"task_id":"t","actor_type":"agent"}"#,
            key: None,
            coalesced_count: 1,
            at,
        }
    }
}

/// A store, and everybody else's hands on its database.
pub trait Subject: Sized {
    type Store: Store;

    async fn open() -> Self;
    fn store(&self) -> &Self::Store;
    /// A row from outside; its columns say what its payload says.
    async fn put_run(&self, row: &Row<'_>);
    async fn set_status(&self, run_id: RunId, status: RunStatus);
    async fn set_agent(&self, organization: &str, agent: &str, status: AgentStatus);
    async fn pause(&self, organization: Option<&str>, pause_id: &str);
    async fn resume(&self);
    /// Every run, oldest first.
    async fn runs(&self) -> Vec<RunRow>;
    /// Rows of `runs`, `merged_wakes`, `refused_wakes`, `wake_keys`.
    async fn counts(&self) -> [i64; 4];
    /// Makes one gate's read fail, and no other.
    async fn break_read(&self, gate: GateName);
    /// Undoes [`Subject::break_read`].
    async fn mend_read(&self, gate: GateName);
}

/// A store that keeps its rows in a store in memory, and that one.
pub struct InMemory<S>(S, MemoryStore);

/// The store in memory itself, or one that stands before it.
pub trait OverMemory: Store {
    fn open() -> (Self, MemoryStore);
}

impl OverMemory for MemoryStore {
    fn open() -> (Self, MemoryStore) {
        let store = Self::new();
        (store.clone(), store)
    }
}

impl OverMemory for SimStore {
    fn open() -> (Self, MemoryStore) {
        fakes::store()
    }
}

pub struct OnSqlite {
    pub store: SqliteStore,
    pub outside: Outside,
    pub url: String,
    _directory: TempDir,
}

pub struct OnPostgres {
    pub store: Agreeing,
    pub outside: Outside,
    pub database: TestDatabase,
}

impl<S: OverMemory> Subject for InMemory<S> {
    type Store = S;

    async fn open() -> Self {
        let (store, memory) = S::open();
        Self(store, memory)
    }

    fn store(&self) -> &S {
        &self.0
    }

    async fn put_run(&self, row: &Row<'_>) {
        self.1.put_run(MemoryRun {
            id: row.id,
            organization_id: organization(row.organization),
            project_id: None,
            agent_profile_id: agent(row.agent),
            reason: Reason::parse(row.reason).unwrap(),
            status: row.status,
            payload: payload(row.payload),
            idempotency_key: row.key.map(|key| IdempotencyKey::parse(key).unwrap()),
            coalesced_count: row.coalesced_count,
            degraded: None,
            producer: Producer::parse("other").unwrap(),
            traceparent: None,
            requested_at: row.at,
            decided_at: row.at,
            expires_at: None,
        });
    }

    async fn set_status(&self, run_id: RunId, status: RunStatus) {
        assert!(self.1.set_status(run_id, status));
    }

    async fn set_agent(&self, organization_id: &str, name: &str, status: AgentStatus) {
        self.1.set_agent((organization(organization_id), agent(name)), status);
    }

    async fn pause(&self, organization_id: Option<&str>, pause_id: &str) {
        self.1.pause(organization_id.map(organization), pause_id);
    }

    async fn resume(&self) {
        for paused in [None, Some(organization("")), Some(organization("acme"))] {
            self.1.resume(paused.as_ref());
        }
    }

    async fn runs(&self) -> Vec<RunRow> {
        let mut runs = self.1.runs();
        runs.sort_by_key(|run| (run.requested_at, run.id));
        runs.into_iter()
            .map(|run| RunRow {
                id: run.id.to_string(),
                organization_id: run.organization_id.to_string(),
                agent_profile_id: run.agent_profile_id.to_string(),
                status: run.status.as_str().to_owned(),
                payload: run.payload.text().to_owned(),
                task_id: run.payload.task().task().map(TaskId::to_string),
                actor_type: run.payload.actor_type().map(ActorType::to_string),
                actor_id: run.payload.actor_id().map(ActorId::to_string),
                idempotency_key: run.idempotency_key.map(|key| key.to_string()),
                coalesced_count: i64::from(run.coalesced_count),
                degraded_reason: run.degraded.map(|reason| reason.as_str().to_owned()),
                requested_at: run.requested_at.micros(),
            })
            .collect()
    }

    async fn counts(&self) -> [i64; 4] {
        let refused = self.1.refused_wakes().len();
        [self.1.runs().len(), self.1.merged_wakes().len(), refused, self.1.keys().len()]
            .map(|count| i64::try_from(count).unwrap())
    }

    async fn break_read(&self, gate: GateName) {
        self.1.fail(gate);
    }

    async fn mend_read(&self, gate: GateName) {
        self.1.restore(gate);
    }
}

/// What is renamed so that one gate's read fails. The views are what a single gate reads.
fn relation(gate: GateName) -> &'static str {
    match gate {
        GateName::Identity => "refused_wakes",
        GateName::AgentStatus => "agents",
        GateName::Pause => "pauses",
        GateName::Duplicate => "wake_keys",
        GateName::Coalesce => "mergeable_runs",
        GateName::Allowance => "counted_runs",
        GateName::Capacity => "intake_slots",
        GateName::Insert => unreachable!("reads nothing of its own"),
    }
}

/// A literal: quotes doubled, nothing else is special in either dialect.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn or_null(text: Option<&str>) -> String {
    text.map_or_else(|| "NULL".to_owned(), quoted)
}

/// The columns that a row from outside has to have, by the contract.
fn insert(row: &Row<'_>, at: &str) -> String {
    let read = Payload::read(row.payload).unwrap();
    format!(
        "INSERT INTO runs (id, organization_id, agent_profile_id, reason, status, payload, task_id,
            actor_type, actor_id, idempotency_key, coalesced_count, requested_at)
         VALUES ('{}', {}, {}, {}, '{}', {}, {}, {}, {}, {}, {}, {at})",
        row.id,
        quoted(row.organization),
        quoted(row.agent),
        quoted(row.reason),
        row.status.as_str(),
        quoted(row.payload),
        or_null(read.task().task().map(TaskId::as_str)),
        or_null(read.actor_type().map(ActorType::as_str)),
        or_null(read.actor_id().map(ActorId::as_str)),
        or_null(row.key),
        row.coalesced_count,
    )
}

async fn counts(outside: &Outside) -> [i64; 4] {
    let mut counts = [0; 4];
    let tables = ["runs", "merged_wakes", "refused_wakes", "wake_keys"];
    for (count, table) in counts.iter_mut().zip(tables) {
        *count = outside.number(&format!("SELECT count(*) FROM {table}")).await;
    }
    counts
}

macro_rules! by_outside {
    () => {
        async fn set_status(&self, run_id: RunId, status: RunStatus) {
            let status = status.as_str();
            let sql = format!("UPDATE runs SET status = '{status}' WHERE id = '{run_id}'");
            self.outside.execute(&sql).await;
        }

        async fn set_agent(&self, organization: &str, agent: &str, status: AgentStatus) {
            self.outside.set_agent(organization, agent, status.as_str()).await;
        }

        async fn pause(&self, organization: Option<&str>, pause_id: &str) {
            self.outside.pause(pause_id, organization).await;
        }

        async fn resume(&self) {
            self.outside.resume_all().await;
        }

        async fn runs(&self) -> Vec<RunRow> {
            self.outside.runs().await
        }

        async fn counts(&self) -> [i64; 4] {
            counts(&self.outside).await
        }
    };
}

impl Subject for OnSqlite {
    type Store = SqliteStore;

    async fn open() -> Self {
        let (directory, url) = sqlite::database().await;
        let store = SqliteStore::connect(&url, &OPTIONS).unwrap();
        let outside = Outside::Sqlite(SqlitePool::connect_lazy(&url).unwrap());
        Self { store, outside, url, _directory: directory }
    }

    fn store(&self) -> &SqliteStore {
        &self.store
    }

    async fn put_run(&self, row: &Row<'_>) {
        self.outside.execute(&insert(row, &row.at.micros().to_string())).await;
    }

    /// SQLite renames no view, so a view's definition is kept in a table meanwhile.
    async fn break_read(&self, gate: GateName) {
        let relation = relation(gate);
        let sql = if relation.ends_with("_runs") {
            format!(
                "CREATE TABLE kept AS SELECT sql FROM sqlite_schema WHERE name = '{relation}';
                 DROP VIEW {relation}"
            )
        } else {
            format!("ALTER TABLE {relation} RENAME TO away")
        };
        self.outside.execute(&sql).await;
    }

    async fn mend_read(&self, gate: GateName) {
        let relation = relation(gate);
        if !relation.ends_with("_runs") {
            return self.outside.execute(&format!("ALTER TABLE away RENAME TO {relation}")).await;
        }
        let Outside::Sqlite(pool) = &self.outside else { unreachable!("opened on SQLite") };
        let kept: String =
            sqlx::query_scalar("SELECT sql FROM kept").fetch_one(pool).await.unwrap();
        self.outside.execute(&format!("{kept}; DROP TABLE kept")).await;
    }

    by_outside!();
}

impl Subject for OnPostgres {
    type Store = Agreeing;

    async fn open() -> Self {
        let database = postgres::database().await;
        let store = PostgresStore::connect(&database.url(), &OPTIONS).unwrap();
        let outside = Outside::Postgres(database.pool());
        Self { store: Agreeing(store), outside, database }
    }

    fn store(&self) -> &Agreeing {
        &self.store
    }

    async fn put_run(&self, row: &Row<'_>) {
        let at = format!(
            "'epoch'::timestamptz + interval '1 second' * {} + interval '1 microsecond' * {}",
            row.at.micros().div_euclid(1_000_000),
            row.at.micros().rem_euclid(1_000_000)
        );
        self.outside.execute(&insert(row, &at)).await;
    }

    async fn break_read(&self, gate: GateName) {
        let relation = relation(gate);
        self.outside.execute(&format!("ALTER TABLE {relation} RENAME TO away")).await;
    }

    async fn mend_read(&self, gate: GateName) {
        let relation = relation(gate);
        self.outside.execute(&format!("ALTER TABLE away RENAME TO {relation}")).await;
    }

    by_outside!();
}
