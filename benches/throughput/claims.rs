//! Claims: how many a second several claimers get, and how long one takes, by how much waits of how
//! many organizations.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use uuid::Uuid;
use wakegate::clock::Clock;
use wakegate::store::StoreOptions;
use wakegate::store::postgres::PostgresStore;
use wakegate::store::queue::{ClaimRequest, QueueStore};
use wakegate::store::sqlite::SqliteStore;
use wakegate::wake::{RunId, RunnerId};

use crate::Result;
use crate::database::{Connections, Database};

/// How much waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Depth {
    /// Little, of few organizations.
    Shallow,
    /// Much, of few organizations.
    Deep,
    /// Much, of many organizations.
    Wide,
}

impl Depth {
    pub(crate) const ALL: [Self; 3] = [Self::Shallow, Self::Deep, Self::Wide];

    /// Queued runs, organizations, and claims that are measured.
    fn counts(self, quick: bool) -> (u64, u64, u64) {
        let tenth = if quick { 10 } else { 1 };
        match self {
            Self::Shallow => (4_000 / tenth, 10, 2_000 / tenth),
            Self::Deep => (100_000 / tenth, 10, 2_000 / tenth),
            Self::Wide => (100_000 / tenth, 1_000, 2_000 / tenth),
        }
    }
}

impl fmt::Display for Depth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shallow => "shallow",
            Self::Deep => "deep",
            Self::Wide => "wide",
        })
    }
}

/// What was measured.
pub(crate) struct Claimed {
    pub(crate) claims: usize,
    pub(crate) took: Duration,
    /// Of each claim.
    pub(crate) each: Vec<Duration>,
}

/// Fills the queue and claims one run at a time with so many claimers; every claim gets a run of its
/// own, and the queue counts what is left.
pub(crate) async fn measure(
    database: &Database,
    depth: Depth,
    claimers: usize,
    quick: bool,
) -> Result<Claimed> {
    let (queued, organizations, claims) = depth.counts(quick);
    fill(database, queued, organizations).await?;
    database.checkpoint().await?;
    let options = StoreOptions { connections_max: 16, ..StoreOptions::default() };
    let claimed = match database.connections() {
        Connections::Postgres(_) => {
            claim(PostgresStore::connect(database.url(), &options)?, claimers, claims).await?
        }
        Connections::Sqlite(_) => {
            claim(SqliteStore::connect(database.url(), &options)?, claimers, claims).await?
        }
    };
    let left = database.number("SELECT queued FROM queue_platform").await?;
    let active = database.number("SELECT active FROM queue_platform").await?;
    if (left, active, claimed.claims as u64) != (queued - claims, claims, claims) {
        let found = format!("{left} wait, {active} are under way");
        return Err(format!("of {queued} runs {claims} were claimed, and {found}").into());
    }
    Ok(claimed)
}

async fn fill(database: &Database, queued: u64, organizations: u64) -> Result<()> {
    let columns = "id, organization_id, agent_profile_id, reason, payload, requested_at";
    let postgres = format!(
        "INSERT INTO runs ({columns}) SELECT gen_random_uuid(), 'o' || n % {organizations}, 'a', \
         'task_assigned', '{{}}', now() - n * interval '1 ms' FROM generate_series(1, {queued}) n"
    );
    let id = "lower(substr(hex(randomblob(4)), 1, 8) || '-0000-7000-8000-' || hex(randomblob(6)))";
    let sqlite = format!(
        "WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {queued}) \
         INSERT INTO runs ({columns}) SELECT {id}, 'o' || n % {organizations}, 'a', \
         'task_assigned', '{{}}', 1700000000000000 - n * 1000 FROM s"
    );
    database.execute(&postgres, &sqlite).await
}

async fn claim<S: QueueStore>(store: S, claimers: usize, claims: u64) -> Result<Claimed> {
    let next = Arc::new(AtomicU64::new(0));
    let mut working = JoinSet::new();
    let began = Instant::now();
    for _ in 0..claimers {
        working.spawn(claim_some(store.clone(), Arc::clone(&next), claims));
    }
    let mut runs = BTreeSet::new();
    let mut each = Vec::new();
    while let Some(of_one) = working.join_next().await {
        for (run, took) in of_one?? {
            runs.insert(run.uuid());
            each.push(took);
        }
    }
    Ok(Claimed { claims: runs.len(), took: began.elapsed(), each })
}

async fn claim_some<S: QueueStore>(
    store: S,
    next: Arc<AtomicU64>,
    claims: u64,
) -> Result<Vec<(RunId, Duration)>> {
    let clock = Clock::system();
    let mut claimed = Vec::new();
    loop {
        let nth = next.fetch_add(1, Ordering::Relaxed);
        if nth >= claims {
            return Ok(claimed);
        }
        let now = clock.now();
        let request = ClaimRequest {
            claim_id: Uuid::from_u128(u128::from(nth) + 1),
            runner: RunnerId::parse("bench")?,
            runs_max: 1,
            organizations: Vec::new(),
            lease_until: now + Duration::from_hours(1),
            now,
            platform_active_max: u32::MAX,
            organization_active_max: u32::MAX,
        };
        let started = Instant::now();
        let runs = store.claim(&request).await?;
        let took = started.elapsed();
        let run = runs.first().ok_or("a claim got nothing although runs wait")?;
        claimed.push((run.run_id, took));
    }
}
