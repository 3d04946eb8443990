//! `wakegate runs`: runs, newest first.

use std::fmt::Write as _;

use clap::Args;
use tokio::runtime::Builder;
use uuid::Uuid;

use super::servers::{AnyStore, block_on, database, database_failure};
use super::table::{Form, json_line, seconds, shown, wrapped};
use super::{Exit, Failure, print};
use crate::config::Config;
use crate::store::StoreError;
use crate::store::history::{RunRow, RunStore, TaskKey};
use crate::wake::{RunId, UtcMicros};

/// Rows that one statement reads where they have to be looked through.
const PAGE_ROWS: u32 = 1_000;

const AFTER_HELP: &str = "\
Newest first: by id, which for a run of wakegate's own begins with the instant at which its wake
was stored, and with --task by request instant. The next page begins with --before and the last
id of this one. With --task only that task's runs are read; otherwise runs are looked through
until enough match.

In a terminal it is text, in a pipe one JSON object a line.

Examples:
  wakegate runs --status queued
  wakegate runs --organization acme --task t1
  wakegate runs --agent builder --limit 500 | jq -r .id";

/// Arguments of `runs`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct RunsArgs {
    /// Only of this organization; with --task, "" where it is not given
    #[arg(long, value_name = "ORGANIZATION")]
    pub organization: Option<String>,
    /// Only of this task
    #[arg(long, value_name = "TASK")]
    pub task: Option<String>,
    /// Only for this agent
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<String>,
    /// Only with this status; may be given more than once
    #[arg(long, value_name = "STATUS", value_parser = [
        "queued", "claimed", "running", "succeeded", "failed", "cancelled", "expired", "timed_out",
        "limit_exceeded",
    ])]
    pub status: Vec<String>,
    /// Most runs
    #[arg(long, value_name = "RUNS", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
    /// Only what comes behind this run
    #[arg(long, value_name = "RUN")]
    pub before: Option<Uuid>,
    /// JSON also in a terminal
    #[arg(long)]
    pub json: bool,
}

impl RunsArgs {
    fn takes(&self, run: &RunRow) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        is(&self.organization, &run.organization_id)
            && is(&self.agent, &run.agent_profile_id)
            && (self.status.is_empty() || self.status.contains(&run.status))
    }
}

/// Why there is no list.
#[derive(Debug)]
pub enum ListError {
    /// The database cannot be asked.
    Store(StoreError),
    /// There is no run to begin behind.
    NoSuchRun(RunId),
}

impl From<StoreError> for ListError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Lists.
pub(super) fn execute(config: &Config, args: &RunsArgs) -> Result<Exit, Failure> {
    block_on(&mut Builder::new_current_thread(), async {
        let runs = match database(config).await? {
            AnyStore::Postgres(store) => list(&store, args).await,
            AnyStore::Sqlite(store) => list(&store, args).await,
        };
        let runs = runs.map_err(|error| match error {
            ListError::Store(error) => database_failure(config, &error),
            ListError::NoSuchRun(id) => {
                Failure::new(format!("there is no run {id} to begin behind"))
                    .remedy("--before takes the last id of a page; that run may have been pruned")
            }
        })?;
        print(&written(&runs, Form::of_output(args.json)))?;
        Ok(Exit::Done)
    })
}

/// The next runs, as asked for.
///
/// # Errors
/// See [`ListError`].
pub async fn list<S: RunStore>(store: &S, args: &RunsArgs) -> Result<Vec<RunRow>, ListError> {
    let mut runs = Vec::new();
    let limit = args.limit as usize;
    let task = args.task.clone().map(|task_id| TaskKey {
        organization_id: args.organization.clone().unwrap_or_default(),
        task_id,
    });
    let mut before: Option<(UtcMicros, RunId)> = match args.before.map(RunId::from) {
        None => None,
        // Only the index of a task's runs needs more than the id.
        Some(id) if task.is_none() => Some((UtcMicros::default(), id)),
        Some(id) => match store.run(id).await? {
            Some(run) => Some((run.requested_at, id)),
            None => return Err(ListError::NoSuchRun(id)),
        },
    };
    let filtered = args.organization.is_some() && task.is_none()
        || args.agent.is_some()
        || !args.status.is_empty();
    let rows = if filtered { PAGE_ROWS } else { args.limit.min(PAGE_ROWS) };
    while runs.len() < limit {
        let page = match &task {
            Some(task) => store.runs_of_task(task, before, rows).await?,
            None => store.runs_before(before.map(|(_, id)| id), rows).await?,
        };
        let Some(last) = page.last() else { break };
        before = Some((last.requested_at, last.id));
        runs.extend(page.into_iter().filter(|run| args.takes(run)));
    }
    runs.truncate(limit);
    Ok(runs)
}

/// Runs as lines: text, or JSON.
#[must_use]
pub fn written(runs: &[RunRow], form: Form) -> String {
    let mut text = String::new();
    for run in runs {
        let Form::Table { width } = form else {
            text += &json_line(run);
            continue;
        };
        let _ = writeln!(text, "{}  {:<14}  {}", run.id, run.status, seconds(run.requested_at));
        let task = match &run.task_id {
            Some(task) => format!("task \"{task}\""),
            None => "no task".to_owned(),
        };
        let mut line = format!(
            "{task}, agent \"{}\", reason \"{}\", organization \"{}\"",
            run.agent_profile_id, run.reason, run.organization_id
        );
        if run.coalesced_count > 1 {
            let _ = write!(line, ", {} wakes", run.coalesced_count);
        }
        if let Some(degraded) = &run.degraded_reason {
            let _ = write!(line, ", degraded: {degraded}");
        }
        let _ = writeln!(text, "    {}", wrapped(&shown(&line), 4, width));
    }
    text
}
