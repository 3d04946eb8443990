//! A database with runs in it, and what its queue must say of them.

use std::any::Any;
use std::time::Duration;

use sqlx::AssertSqlSafe;
use uuid::Uuid;
use wakegate::store::StoreOptions;
use wakegate::store::control::{Operator, Why};
use wakegate::store::postgres::PostgresStore;
use wakegate::store::queue::{
    CancelRequest, CancelScope, ClaimRequest, ClaimedRun, FinishRequest, Held, QueueStore, RunEnd,
    RunEventKind,
};
use wakegate::store::sqlite::SqliteStore;
use wakegate::wake::{OrganizationId, RunId, RunnerId, UtcMicros};

use crate::harness::outside::Outside;
use crate::harness::{postgres, sqlite};

pub const OPTIONS: StoreOptions = StoreOptions {
    connections_max: 8,
    read_deadline: Duration::from_secs(20),
    record_deadline: Duration::from_secs(20),
};

/// A store under test, and a way round it.
pub struct World<S> {
    pub store: S,
    pub outside: Outside,
    pub url: String,
    _kept: Box<dyn Any + Send + Sync>,
}

impl World<SqliteStore> {
    pub async fn on_sqlite() -> Self {
        let (directory, url) = sqlite::database().await;
        let outside = Outside::Sqlite(sqlx::SqlitePool::connect_lazy(&url).unwrap());
        let store = SqliteStore::connect(&url, &OPTIONS).unwrap();
        Self { store, outside, url, _kept: Box::new(directory) }
    }
}

impl World<PostgresStore> {
    pub async fn on_postgres() -> Self {
        let database = postgres::database().await;
        let outside = Outside::Postgres(database.pool());
        let url = database.url();
        let store = PostgresStore::connect(&url, &OPTIONS).unwrap();
        Self { store, outside, url, _kept: Box::new(database) }
    }
}

/// The instant so many seconds after the one that tests count from.
pub fn at(seconds: i64) -> UtcMicros {
    UtcMicros::from_micros(crate::harness::world::T0 + seconds * 1_000_000)
}

/// An instant as a literal of the dialect.
pub fn literal(outside: &Outside, at: UtcMicros) -> String {
    match outside {
        Outside::Sqlite(_) => at.micros().to_string(),
        Outside::Postgres(_) => {
            format!("(timestamptz 'epoch' + interval '{} microseconds')", at.micros())
        }
    }
}

pub fn id(number: u128) -> RunId {
    RunId::from(Uuid::from_u128(number))
}

pub fn number(run: RunId) -> u128 {
    run.uuid().as_u128()
}

pub fn organization(name: &str) -> OrganizationId {
    OrganizationId::parse(name).unwrap()
}

/// A run to be inserted from outside; queued at instant 0 by an agent, without a project.
#[derive(Debug, Clone)]
pub struct Queued {
    pub id: u128,
    pub organization: &'static str,
    pub project: Option<&'static str>,
    pub status: &'static str,
    pub actor_type: &'static str,
    pub producer: &'static str,
    pub reason: &'static str,
    pub at: i64,
    pub expires: Option<i64>,
}

pub fn queued(id: u128) -> Queued {
    Queued {
        id,
        organization: "acme",
        project: None,
        status: "queued",
        actor_type: "agent",
        producer: "task_mutation",
        reason: "task_assigned",
        at: 0,
        expires: None,
    }
}

impl Queued {
    pub fn of(mut self, organization: &'static str) -> Self {
        self.organization = organization;
        self
    }

    pub fn in_project(mut self, project: &'static str) -> Self {
        self.project = Some(project);
        self
    }

    pub fn at(mut self, seconds: i64) -> Self {
        self.at = seconds;
        self
    }

    pub fn by_a_person(mut self) -> Self {
        self.actor_type = "user";
        self
    }

    pub fn expiring(mut self, seconds: i64) -> Self {
        self.expires = Some(seconds);
        self
    }
}

/// The statement that inserts them all at once.
pub fn insertion(outside: &Outside, runs: &[Queued]) -> String {
    let rows: Vec<String> = runs
        .iter()
        .map(|run| {
            let project = run.project.map_or("NULL".to_owned(), |project| format!("'{project}'"));
            let expires =
                run.expires.map_or("NULL".to_owned(), |seconds| literal(outside, at(seconds)));
            format!(
                "('{}', '{}', {project}, 'builder', '{}', '{}', '{}', 'ann', '{}', {}, {expires})",
                id(run.id),
                run.organization,
                run.reason,
                run.status,
                run.actor_type,
                run.producer,
                literal(outside, at(run.at)),
            )
        })
        .collect();
    format!(
        "INSERT INTO runs (id, organization_id, project_id, agent_profile_id, reason, status, \
         actor_type, actor_id, producer, requested_at, expires_at) VALUES {}",
        rows.join(", ")
    )
}

/// A claim by runner `r` of at most so many, at an instant, with a lease of a minute, and room for all.
pub fn asking(claim: u128, runs_max: u32, seconds: i64) -> ClaimRequest {
    ClaimRequest {
        claim_id: Uuid::from_u128(claim),
        runner: RunnerId::parse("r").unwrap(),
        runs_max,
        organizations: Vec::new(),
        lease_until: at(seconds + 60),
        now: at(seconds),
        platform_active_max: 1_000,
        organization_active_max: 1_000,
    }
}

pub fn held(run: &ClaimedRun) -> Held {
    Held { run_id: run.run_id, fencing_token: run.fencing_token }
}

pub fn finishing(held: Held, end: RunEnd, seconds: i64) -> FinishRequest {
    FinishRequest { held, end, reason: None, now: at(seconds) }
}

pub fn cancelling(run: u128, scope: CancelScope, seconds: i64) -> CancelRequest {
    CancelRequest {
        run_id: id(run),
        scope,
        actor: Operator::parse("ann").unwrap(),
        reason: Why::parse("no longer wanted").unwrap(),
        now: at(seconds),
    }
}

/// The runs by their numbers, in the order they were given out.
pub fn numbers(runs: &[ClaimedRun]) -> Vec<u128> {
    runs.iter().map(|run| number(run.run_id)).collect()
}

impl<S: QueueStore> World<S> {
    pub async fn insert(&self, runs: &[Queued]) {
        self.outside.execute(&insertion(&self.outside, runs)).await;
    }

    pub async fn claim(&self, request: &ClaimRequest) -> Vec<ClaimedRun> {
        self.store.claim(request).await.unwrap()
    }

    pub async fn claimed(&self, request: &ClaimRequest) -> Vec<u128> {
        numbers(&self.claim(request).await)
    }

    /// Every event so far, as run and kind.
    pub async fn events(&self) -> Vec<(u128, RunEventKind)> {
        let events = self.store.take_events(10_000).await.unwrap();
        events.iter().map(|event| (number(event.run_id), event.event)).collect()
    }

    pub async fn status(&self, run: u128) -> String {
        let sql = format!("SELECT status FROM runs WHERE id = '{}'", id(run));
        match &self.outside {
            Outside::Sqlite(pool) => {
                sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(pool).await.unwrap()
            }
            Outside::Postgres(pool) => {
                sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(pool).await.unwrap()
            }
        }
    }

    /// The queue's tables say what the runs say.
    pub async fn assert_counts(&self, when: &str) {
        assert_counts(&self.outside, when).await;
    }
}

/// What differs between the queue's tables and a recount of the runs; the same text for both dialects.
pub const DIFFERENCES: &str = "
    WITH counted AS (
        SELECT organization_id, coalesce(project_id, '') AS project_id,
               sum(CASE WHEN status = 'queued' THEN 1 ELSE 0 END) AS queued,
               sum(CASE WHEN status = 'queued' THEN 0 ELSE 1 END) AS active
        FROM runs
        WHERE status IN ('queued', 'claimed', 'running')
        GROUP BY organization_id, coalesce(project_id, '')
    ), of_organizations AS (
        SELECT organization_id, sum(queued) AS queued, sum(active) AS active,
               max(CASE WHEN queued > 0 AND (project_id = '' OR active = 0) THEN 1 ELSE 0 END)
                   AS ready
        FROM counted
        GROUP BY organization_id
    )
    SELECT 'platform' AS what
    FROM queue_platform p
    WHERE p.queued <> (SELECT coalesce(sum(queued), 0) FROM counted)
        OR p.active <> (SELECT coalesce(sum(active), 0) FROM counted)
    UNION ALL
    SELECT 'rows of the platform' WHERE (SELECT count(*) FROM queue_platform) <> 1
    UNION ALL
    SELECT 'organization ' || coalesce(c.organization_id, q.organization_id)
    FROM of_organizations c
    FULL JOIN queue_organizations q ON q.organization_id = c.organization_id
    WHERE coalesce(q.queued, -1) <> coalesce(c.queued, 0)
        OR q.active <> coalesce(c.active, 0)
        OR q.ready <> (coalesce(c.ready, 0) = 1)
        OR q.paused <> EXISTS (
            SELECT 1 FROM pauses s
            WHERE s.scope = 'organization' AND s.organization_id = q.organization_id
                AND s.released_at IS NULL)
        OR q.weight <> coalesce((
            SELECT l.weight FROM organization_limits l
            WHERE l.organization_id = q.organization_id), 1)
        OR coalesce(q.active_max, -1) <> coalesce((
            SELECT l.active_runs_max FROM organization_limits l
            WHERE l.organization_id = q.organization_id), -1)
    UNION ALL
    SELECT 'project ' || coalesce(c.organization_id, q.organization_id) || '/'
        || coalesce(c.project_id, q.project_id)
    FROM counted c
    FULL JOIN queue_projects q
        ON q.organization_id = c.organization_id AND q.project_id = c.project_id
    WHERE coalesce(q.queued, -1) <> coalesce(c.queued, -1)
        OR coalesce(q.active, -1) <> coalesce(c.active, -1)
    UNION ALL
    SELECT 'head of ' || q.organization_id || '/' || q.project_id
    FROM queue_projects q
    WHERE q.queued > 0 AND (
        NOT EXISTS (
            SELECT 1 FROM {queued} r
            WHERE r.id = q.head_id AND r.queue_rank = q.head_rank
                AND r.organization_id = q.organization_id AND r.{project} = q.project_id)
        OR EXISTS (
            SELECT 1 FROM {queued} r
            WHERE r.organization_id = q.organization_id AND r.{project} = q.project_id
                AND (r.queue_rank < q.head_rank
                     OR r.queue_rank = q.head_rank AND r.id < q.head_id)))";

/// The text for a dialect.
pub fn differences(outside: &Outside) -> String {
    let (queued, project) = match outside {
        Outside::Sqlite(_) => ("(SELECT * FROM runs WHERE status = 'queued')", "queue_project"),
        Outside::Postgres(_) => ("queued_runs", "project_id"),
    };
    DIFFERENCES.replace("{queued}", queued).replace("{project}", project)
}

pub async fn assert_counts(outside: &Outside, when: &str) {
    let sql = AssertSqlSafe(differences(outside));
    let found: Vec<String> = match outside {
        Outside::Sqlite(pool) => sqlx::query_scalar(sql).fetch_all(pool).await,
        Outside::Postgres(pool) => sqlx::query_scalar(sql).fetch_all(pool).await,
    }
    .unwrap();
    assert_eq!(found, Vec::<String>::new(), "{when}: the queue is not what the runs say");
}
