//! The rows that a workload leaves, written in bulk and nothing else: what the database can do with
//! the project's own tables, indices and constraints, without a stream and without a decision.

mod postgres;
mod sqlite;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::Result;
use crate::database::{Connections, Database};
use crate::stream::PULL;
use crate::workloads::Event;

/// What an event says, and the id that its run or its refusal has.
#[derive(Debug, Clone)]
struct Row {
    id: Uuid,
    organization: String,
    project: String,
    agent: String,
    key: String,
    payload: String,
    task: String,
    actor: String,
    at: OffsetDateTime,
}

/// What one transaction writes.
#[derive(Debug, Default)]
struct Batch {
    /// Runs, each with its key.
    admitted: Vec<Row>,
    /// Runs that a wake joins, and those wakes.
    merged: Vec<(Uuid, Row)>,
    refused: Vec<Row>,
}

/// Everything that the events leave in the database, known before the clock starts.
pub(crate) struct Rows {
    shares: Vec<Vec<Batch>>,
}

impl Rows {
    /// For so many connections, each with organizations of its own; 500 events a transaction.
    pub(crate) fn of(events: &[Event], connections: usize) -> Result<Self> {
        let mut shares: Vec<Vec<Row>> = (0..connections).map(|_| Vec::new()).collect();
        for (at, event) in events.iter().enumerate() {
            let row = row(at, event)?;
            let organization: usize = row.organization.bytes().map(usize::from).sum();
            shares[organization % connections].push(row);
        }
        Ok(Self { shares: shares.into_iter().map(batches).collect() })
    }

    /// Writes them. The time that took.
    pub(crate) async fn insert(self, database: &Database) -> Result<Duration> {
        let started = Instant::now();
        let mut writing = JoinSet::new();
        for share in self.shares {
            match database.connections() {
                Connections::Postgres(pool) => writing.spawn(postgres::write(pool, share)),
                Connections::Sqlite(pool) => writing.spawn(sqlite::write(pool, share)),
            };
        }
        while let Some(written) = writing.join_next().await {
            written??;
        }
        Ok(started.elapsed())
    }
}

/// What becomes of each follows from how the workloads are made: a task's agent joins the run it
/// has, and five agents use up a task's allowance.
fn batches(rows: Vec<Row>) -> Vec<Batch> {
    let mut runs: HashMap<(String, String), (Uuid, Vec<String>)> = HashMap::new();
    let mut admissions: HashMap<String, u32> = HashMap::new();
    let mut batches = Vec::with_capacity(rows.len().div_ceil(PULL));
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let mut batch = Batch::default();
        for row in rows.by_ref().take(PULL) {
            let admitted = admissions.entry(row.task.clone()).or_default();
            match runs.get_mut(&(row.task.clone(), row.agent.clone())) {
                Some((_, keys)) if keys.contains(&row.key) => {}
                Some((run, keys)) => {
                    keys.push(row.key.clone());
                    batch.merged.push((*run, row));
                }
                None if *admitted == 5 => batch.refused.push(row),
                None => {
                    *admitted += 1;
                    let named = (row.task.clone(), row.agent.clone());
                    runs.insert(named, (row.id, vec![row.key.clone()]));
                    batch.admitted.push(row);
                }
            }
        }
        batches.push(batch);
    }
    batches
}

fn row(at: usize, event: &Event) -> Result<Row> {
    let body: serde_json::Value = serde_json::from_slice(&event.body)?;
    let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
    let (organization, task) = (text("organization_id"), text("task_id"));
    let (project, actor) = (text("project_id"), text("acting_agent_id"));
    let agent = text("new_assignee_agent_profile_id");
    let key = format!("task_assigned:{task}:{agent}:{}", body["assignment_generation"]);
    let payload = format!(
        r#"{{"reason":"task_assigned","task_id":"{task}","organization_id":"{organization}","project_id":"{project}","actor_type":"agent","actor_id":"{actor}"}}"#,
    );
    // Ordered by time, as the worker's ids are: an index grows at its end.
    let millis = 1_767_225_600_000 + at as u64 / 100;
    // Of the task as well: a table that is kept gets new rows in each round.
    let mut tail: [u8; 10] = Uuid::parse_str(&task)?.as_bytes()[..10].try_into()?;
    tail[6..].copy_from_slice(&u32::try_from(at)?.to_be_bytes());
    let id = uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid();
    Ok(Row {
        id,
        organization,
        project,
        agent,
        key,
        payload,
        task,
        actor,
        at: OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000)?,
    })
}
