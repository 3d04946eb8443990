//! `wakegate status`: workers, lanes, counts and pauses.
//!
//! Workers are asked over NATS. What is in the database is asked of any of them too, and of the
//! database itself where none answers, so that there is an answer while no worker runs.

mod ask;
mod lanes;
mod render;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use self::ask::{Asked, ask, discover};
pub use self::lanes::LaneStatus;
pub use self::render::render;
use super::operators::colours;
use super::servers::{AnyStore, block_on, connect, control_store, topology};
use super::table::{Form, json_line};
use super::{Exit, Failure, print};
use crate::broker::Broker;
use crate::clock::Clock;
use crate::config::Config;
use crate::control::documents::{CountsRequest, LIMIT, PausesRequest, REFUSALS_SECONDS};
use crate::control::{ControlError, Verb, counts, pauses};
use crate::store::control::ControlStore;

const AFTER_HELP: &str = "\
Workers are found by NATS's service discovery, as `nats micro ls` does, and asked one by one.
Counts and pauses come from any worker, or from the database where none answers. What was not
answered is named, and the exit code is then 1.

Examples:
  wakegate status
  wakegate status --json | jq '.lanes[] | select(.owner == null)'";

/// Arguments of `status`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct StatusArgs {
    /// Print JSON also in a terminal
    #[arg(long)]
    pub json: bool,
}

/// Everything that is shown. What workers say is kept as they say it: one may be newer than this
/// command.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Status {
    /// The reply to `health` of each worker that answers.
    pub workers: Vec<Value>,
    /// Each lane.
    pub lanes: Vec<LaneStatus>,
    /// The reply to `counts`.
    pub counts: Value,
    /// The first page of active pauses.
    pub pauses: Vec<Value>,
    /// Whether there are more of them.
    pub more_pauses: bool,
    /// What was not answered, and why.
    pub unanswered: Vec<String>,
}

/// Asks and shows.
pub(super) fn execute(config: &Config, args: &StatusArgs) -> Result<Exit, Failure> {
    let status = block_on(&mut Builder::new_current_thread(), Box::pin(gather(config)))?;
    match Form::of_output(args.json) {
        Form::Json => print(&json_line(&status))?,
        Form::Table { width } => print(&render(&status, width, colours()))?,
    }
    Ok(if status.unanswered.is_empty() { Exit::Done } else { Exit::Failed })
}

async fn gather(config: &Config) -> Result<Status, Failure> {
    let topology = topology(config)?;
    let mut status = Status::default();
    let broker = match connect(config).await {
        Ok(broker) => Some(broker),
        Err(failure) => {
            status.unanswered.push(failure.what);
            None
        }
    };
    if let Some(broker) = &broker {
        of_workers(broker, config, &mut status).await;
        lanes::fill(broker, topology.partitions(), &mut status).await;
    }
    let client = broker.as_ref().filter(|_| !status.workers.is_empty());
    if !of_database(client, config, &mut status).await {
        match control_store(config)? {
            AnyStore::Postgres(store) => Box::pin(by_itself(&store, config, &mut status)).await,
            AnyStore::Sqlite(store) => Box::pin(by_itself(&store, config, &mut status)).await,
        }
    }
    let uncounted = status.counts["unanswered"].as_array().cloned().unwrap_or_default();
    let name = |at: &Value, key: &str| at[key].as_str().unwrap_or_default().to_owned();
    status
        .unanswered
        .extend(uncounted.iter().map(|u| format!("{}: {}", name(u, "count"), name(u, "error"))));
    Ok(status)
}

async fn of_workers(broker: &Broker, config: &Config, status: &mut Status) {
    let found = discover(&broker.client, config.nats.request_timeout).await;
    let asked = found.iter().map(|worker| ask(&broker.client, &worker.health, ""));
    for (worker, answer) in found.iter().zip(futures_util::future::join_all(asked).await) {
        match answer {
            Asked::Answered(health) => status.workers.push(health),
            Asked::Refused(error) => {
                status.unanswered.push(format!("worker {}: {}", worker.id, error.message));
            }
            Asked::NoAnswer(why) => status.unanswered.push(format!("worker {}: {why}", worker.id)),
        }
    }
    status.workers.sort_by_key(|worker| worker["worker"]["started_at"].to_string());
}

/// Asks any worker. Returns whether one answered.
async fn of_database(broker: Option<&Broker>, config: &Config, status: &mut Status) -> bool {
    let Some(broker) = broker else { return false };
    let counts = ask(&broker.client, &Verb::Counts.subject(), "").await;
    let pauses = ask(&broker.client, &Verb::Pauses.subject(), "").await;
    let (counts, pauses) = match (counts, pauses) {
        (Asked::NoAnswer(_), _) | (_, Asked::NoAnswer(_)) => return false,
        (counts, pauses) => (counts, pauses),
    };
    keep(status, config, counts.into_result(), pauses.into_result());
    true
}

/// Asks the database.
async fn by_itself<S: ControlStore>(store: &S, config: &Config, status: &mut Status) {
    let request = CountsRequest { refusals_seconds: REFUSALS_SECONDS };
    let counts = json!(counts::counts(store, &request, Clock::system().now()).await);
    let pauses = pauses::pauses(store, &PausesRequest { after: None, limit: LIMIT }).await;
    keep(status, config, Ok(counts), pauses.map(|reply| json!(reply)));
}

fn keep(
    status: &mut Status,
    config: &Config,
    counts: Result<Value, ControlError>,
    pauses: Result<Value, ControlError>,
) {
    let url = config.control.database_url.as_ref().unwrap_or(&config.database.url).url();
    match counts {
        Ok(counts) => status.counts = counts,
        Err(error) => status.unanswered.push(format!("counts: {}", url.scrub(&error.message))),
    }
    match pauses {
        Ok(pauses) => {
            status.more_pauses = pauses.get("next").is_some();
            status.pauses = pauses["pauses"].as_array().cloned().unwrap_or_default();
        }
        Err(error) => status.unanswered.push(format!("pauses: {}", url.scrub(&error.message))),
    }
}
