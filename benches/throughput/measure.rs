//! How each measurement is made. Every one checks what it left behind: a figure is worth nothing
//! where the work was not done.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::cells::{Cell, insert_connections};
use crate::claims::{self, Depth};
use crate::database::{Database, Dialect};
use crate::latency::{self, Latency};
use crate::postgres::Cluster;
use crate::rows::Rows;
use crate::stream::{self, Stream};
use crate::tables::Table;
use crate::workloads::{EXHAUSTED_TASKS, Outcomes, Workload, organization, task_id};
use crate::{Result, plain, worker};

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) rounds: usize,
    /// Events for the stream alone, and for wakegate and the bulk insert on PostgreSQL; on SQLite
    /// half as many.
    events: usize,
    /// Events on a database that holds something.
    table: usize,
    /// Events published one after the other.
    awaited: usize,
    /// Events for one lane of the plain worker; for 16 four times as many.
    plain: usize,
    /// Seconds of steady load.
    load_seconds: usize,
}

const FULL: Scale = Scale {
    rounds: 3,
    events: 60_000,
    table: 30_000,
    awaited: 10_000,
    plain: 2_000,
    load_seconds: 3,
};
const QUICK: Scale = Scale {
    rounds: 1,
    events: 10_000,
    table: 5_000,
    awaited: 2_000,
    plain: 1_000,
    load_seconds: 2,
};
/// Claimers at once.
const CLAIMERS: usize = 8;
/// Quicker than this, what is to coalesce is published within the coalescing window.
const APART_SECONDS_MAX: f64 = 4.5;

/// What every measurement needs.
pub(crate) struct Bench {
    pub(crate) scale: Scale,
    quick: bool,
    cluster: Cluster,
    databases: AtomicU64,
    /// Those that took long to fill.
    kept: Mutex<HashMap<Kept, Database>>,
}

type Kept = (Dialect, Table);

/// One measurement's result in one round.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) value: f64,
    pub(crate) details: Value,
}

impl Scale {
    fn events(&self, dialect: Dialect) -> usize {
        match dialect {
            Dialect::Postgres => self.events,
            Dialect::Sqlite => self.events / 2,
        }
    }
}

impl Sample {
    fn rate(count: usize, took: std::time::Duration) -> Self {
        Self { value: count as f64 / took.as_secs_f64(), details: json!({}) }
    }

    fn latency(latency: &Latency) -> Result<Self> {
        Ok(Self { value: latency.p50, details: serde_json::to_value(latency)? })
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = if self.value < 100.0 { 2 } else { 0 };
        write!(f, "{:>9.digits$}", self.value)?;
        // What the worker's batches spent their time on, in milliseconds.
        for (stage, ms) in self.details["stage_ms"].as_object().into_iter().flatten() {
            write!(f, "  {stage} {:.1}", ms.as_f64().unwrap_or_default())?;
        }
        Ok(())
    }
}

impl Bench {
    /// Starts the database server; each measurement starts a nats-server of its own.
    pub(crate) async fn start(quick: bool) -> Result<Self> {
        let cluster = Cluster::start().await?;
        Database::prepare(&cluster).await?;
        let scale = if quick { QUICK } else { FULL };
        let kept = Mutex::new(HashMap::new());
        Ok(Self { scale, quick, cluster, databases: AtomicU64::new(0), kept })
    }

    /// Measures once. `turn` is never the same twice in a run.
    pub(crate) async fn measure(&self, cell: Cell, turn: usize) -> Result<Sample> {
        let salt = turn as u64 + 1;
        match cell {
            Cell::Publish { outstanding } => self.publish(outstanding, salt).await,
            Cell::Noop => self.noop(salt).await,
            Cell::Insert { dialect, connections } => self.insert(dialect, connections, salt).await,
            Cell::InsertLarge { dialect } => self.insert_large(dialect, salt).await,
            Cell::Together { dialect, workload } => self.together(dialect, workload, salt).await,
            Cell::Plain { dialect, lanes } => self.plain(dialect, lanes, salt).await,
            Cell::Worker { dialect, workload } => {
                let database = self.database(dialect, 1).await?;
                let count = self.scale.events(dialect);
                let sample = self.work(&database, dialect, workload, &[], count, salt).await?;
                database.delete(&self.cluster).await?;
                Ok(sample)
            }
            Cell::Ceilings { dialect, workload, enforced } => {
                let database = self.database(dialect, 1).await?;
                let count = self.scale.events(dialect);
                let enforced = if enforced { "on" } else { "off" };
                let settings = [("WAKEGATE_LIMITS_ENFORCED", enforced)];
                let work = self.work(&database, dialect, workload, &settings, count, salt);
                let sample = work.await?;
                database.delete(&self.cluster).await?;
                Ok(sample)
            }
            Cell::Table { dialect, table } => self.table(dialect, table, salt).await,
            Cell::Receive { per_second } => {
                let stream = Stream::start().await?;
                let events = self.load(per_second, salt);
                Sample::latency(&latency::of_consumer(&stream, events, per_second).await?)
            }
            Cell::Latency { dialect, per_second } => self.latency(dialect, per_second, salt).await,
            Cell::Claims { dialect, depth } => self.claims(dialect, depth, CLAIMERS).await,
            Cell::Claim { dialect, depth } => self.claims(dialect, depth, 1).await,
        }
    }

    pub(crate) async fn database(&self, dialect: Dialect, connections: usize) -> Result<Database> {
        let name = format!("bench_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        Database::create(dialect, &self.cluster, &name, u32::try_from(connections)?).await
    }

    async fn publish(&self, outstanding: usize, salt: u64) -> Result<Sample> {
        let count = if outstanding == 1 { self.scale.awaited } else { self.scale.events };
        let stream = Stream::start().await?;
        let took = stream.publish_by(&Workload::Admit.events(count, salt), outstanding).await?;
        Ok(Sample::rate(count, took))
    }

    async fn noop(&self, salt: u64) -> Result<Sample> {
        let count = self.scale.events;
        let stream = Stream::start().await?;
        stream.publish(&Workload::Mixed.events(count, salt)).await?;
        Ok(Sample::rate(count, stream::consume(&stream, count).await?))
    }

    async fn insert(&self, dialect: Dialect, connections: usize, salt: u64) -> Result<Sample> {
        let count = self.scale.events(dialect);
        let database = self.database(dialect, connections).await?;
        database.checkpoint().await?;
        let rows = Rows::of(&Workload::Admit.events(count, salt), connections)?;
        let took = rows.insert(&database).await?;
        expect("the rows", database.rows().await?, Workload::Admit.outcomes(count))?;
        database.delete(&self.cluster).await?;
        Ok(Sample::rate(count, took))
    }

    async fn together(&self, dialect: Dialect, workload: Workload, salt: u64) -> Result<Sample> {
        let count = self.scale.events(dialect);
        let connections = insert_connections(dialect);
        let events = workload.events(count, salt);
        let stream = Stream::start().await?;
        let database = self.database(dialect, connections).await?;
        stream.publish(&events).await?;
        database.checkpoint().await?;
        let rows = Rows::of(&events, connections)?;
        let consumed = async { stream::consume(&stream, count).await };
        let (consumed, inserted) = tokio::try_join!(consumed, rows.insert(&database))?;
        let wanted = Outcomes { deduplicated: 0, ..workload.outcomes(count) };
        expect("the rows", database.rows().await?, wanted)?;
        database.delete(&self.cluster).await?;
        Ok(Sample::rate(count, consumed.max(inserted)))
    }

    async fn plain(&self, dialect: Dialect, lanes: usize, salt: u64) -> Result<Sample> {
        let count = if lanes == 1 { self.scale.plain } else { 4 * self.scale.plain };
        let stream = Stream::start().await?;
        let database = self.database(dialect, lanes).await?;
        publish_within_the_window(&stream, Workload::Mixed, count, salt).await?;
        database.checkpoint().await?;
        let took = plain::work(&stream, &database, lanes, count).await?;
        let (rows, exact) = (database.rows().await?, Workload::Mixed.outcomes(count));
        if lanes == 1 {
            expect("the rows", rows, Outcomes { deduplicated: 0, ..exact })?;
        }
        database.delete(&self.cluster).await?;
        // Several lanes decide from what others are about to change.
        let runs_too_many = rows.queued.saturating_sub(exact.queued);
        Ok(Sample {
            details: json!({ "runs_too_many": runs_too_many }),
            ..Sample::rate(count, took)
        })
    }

    async fn insert_large(&self, dialect: Dialect, salt: u64) -> Result<Sample> {
        let count = self.scale.table;
        let database = self.filled(dialect, Table::Large).await?;
        let before = database.rows().await?;
        database.checkpoint().await?;
        let new = Workload::Admit.events(count, salt);
        let took = Rows::of(&new, insert_connections(dialect))?.insert(&database).await?;
        let rows = database.rows().await?.without(before);
        expect("the new rows", rows, Workload::Admit.outcomes(count))?;
        self.keep(dialect, Table::Large, database).await?;
        Ok(Sample::rate(count, took))
    }

    /// A database in this state, filled now or earlier.
    async fn filled(&self, dialect: Dialect, table: Table) -> Result<Database> {
        if let Some(database) = self.kept.lock().await.remove(&(dialect, table)) {
            return Ok(database);
        }
        let database = self.database(dialect, insert_connections(dialect)).await?;
        table.fill(&database, self.quick).await?;
        Ok(database)
    }

    /// For the next round, if it took long to fill.
    async fn keep(&self, dialect: Dialect, table: Table, database: Database) -> Result<()> {
        if !table.is_kept() {
            return database.delete(&self.cluster).await;
        }
        self.kept.lock().await.insert((dialect, table), database);
        Ok(())
    }

    async fn table(&self, dialect: Dialect, table: Table, salt: u64) -> Result<Sample> {
        let database = self.filled(dialect, table).await?;
        let mut sample =
            self.work(&database, dialect, Workload::Mixed, &[], self.scale.table, salt).await?;
        sample.details["rows_before"] = json!(table.rows(self.quick));
        self.keep(dialect, table, database).await?;
        Ok(sample)
    }

    async fn work(
        &self,
        database: &Database,
        dialect: Dialect,
        workload: Workload,
        settings: &[(&str, &str)],
        count: usize,
        salt: u64,
    ) -> Result<Sample> {
        let stream = Stream::start().await?;
        if workload == Workload::Refused {
            exhaust(database, salt).await?;
        }
        let before = database.rows().await?;
        publish_within_the_window(&stream, workload, count, salt).await?;
        database.checkpoint().await?;
        let (size, logged) = database.bytes().await?;
        let postgres = (dialect == Dialect::Postgres).then_some(&self.cluster);
        let worked =
            worker::work(&stream, postgres, database.url(), settings, count as u64).await?;
        let wanted = workload.outcomes(count);
        expect("the worker's counts", worked.outcomes, wanted)?;
        let rows = database.rows().await?.without(before);
        expect("the new rows", rows, Outcomes { deduplicated: 0, ..wanted })?;
        stream.expect_audited(wanted.refused).await?;
        let (size_now, logged_now) = database.bytes().await?;
        let mut details = serde_json::to_value(&worked)?;
        details["bytes"] = json!({
            "stream": stream.bytes_per_message().await?,
            "database": size_now.saturating_sub(size) as f64 / count as f64,
            "wal": logged_now.saturating_sub(logged) as f64 / count as f64,
        });
        Ok(Sample { value: worked.events_per_second, details })
    }

    async fn latency(&self, dialect: Dialect, per_second: u32, salt: u64) -> Result<Sample> {
        let stream = Stream::start().await?;
        let database = self.database(dialect, 1).await?;
        database.checkpoint().await?;
        let events = self.load(per_second, salt);
        let wanted = Workload::Admit.outcomes(events.len());
        let latency = latency::of_worker(&stream, &database, events, per_second).await?;
        expect("the rows", database.rows().await?, wanted)?;
        database.delete(&self.cluster).await?;
        Sample::latency(&latency)
    }

    /// With several claimers how many a second; with one how long a claim takes at the median.
    async fn claims(&self, dialect: Dialect, depth: Depth, claimers: usize) -> Result<Sample> {
        let database = self.database(dialect, 1).await?;
        let claimed = claims::measure(&database, depth, claimers, self.quick).await?;
        database.delete(&self.cluster).await?;
        match claimers {
            1 => Sample::latency(&Latency::of(claimed.each, Vec::new())),
            _ => Ok(Sample::rate(claimed.claims, claimed.took)),
        }
    }

    fn load(&self, per_second: u32, salt: u64) -> Vec<crate::workloads::Event> {
        let count = per_second as usize * self.scale.load_seconds + latency::warm_up(per_second);
        Workload::Admit.events(count, salt)
    }
}

/// Publishes. The outcomes follow from the construction only if what is to coalesce is published
/// within the coalescing window.
async fn publish_within_the_window(
    stream: &Stream,
    workload: Workload,
    count: usize,
    salt: u64,
) -> Result<()> {
    let seconds = stream.publish(&workload.events(count, salt)).await?.as_secs_f64();
    let apart = match workload {
        // What belongs together is at most 5,000 events apart.
        Workload::Mixed => seconds * (5_000.0 / count as f64).min(1.0),
        Workload::Hot => seconds,
        Workload::Admit | Workload::Refused => 0.0,
    };
    if apart > APART_SECONDS_MAX {
        return Err(format!("publishing took {seconds:.1} s: too slow to coalesce").into());
    }
    Ok(())
}

/// Uses up the allowance of the tasks that are to be refused.
async fn exhaust(database: &Database, salt: u64) -> Result<()> {
    let tasks: Vec<String> = (0..EXHAUSTED_TASKS)
        .map(|task| format!("('{}', '{}')", organization(task), task_id(salt, task)))
        .collect();
    let insert = |id: &str| {
        format!(
            "INSERT INTO runs (id, organization_id, agent_profile_id, reason, task_id, actor_type) \
             SELECT {id}, t.column1, 'seeded-' || n.column1, 'task_assigned', t.column2, 'agent' \
             FROM (VALUES {}) AS t, (VALUES (1), (2), (3), (4), (5)) AS n",
            tasks.join(", ")
        )
    };
    let text_id = "lower(substr(hex(randomblob(4)), 1, 8) || '-0000-7000-8000-' || \
                   hex(randomblob(6)))";
    database.execute(&insert("gen_random_uuid()"), &insert(text_id)).await
}

fn expect(what: &str, found: Outcomes, wanted: Outcomes) -> Result<()> {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{what} are {found:?}, and have to be {wanted:?}").into())
}
