//! `wakegate why`: what became of a task's wakes, of a wake, or of a run.

use std::fmt::Write as _;

use clap::Args;
use tokio::runtime::Builder;
use uuid::Uuid;

use super::operators::complain;
use super::servers::{AnyStore, block_on, connect, database, database_failure};
use super::table::{Form, json_line, shown, wrapped};
use super::{Exit, Failure, print};
use crate::audit::past::past;
use crate::config::Config;
use crate::error_text::one_line;
use crate::explain::history::{Entry, History};
use crate::store::StoreError;
use crate::store::history::{HistoryStore, TaskKey};
use crate::store::redrive::RedriveStore;
use crate::wake::WakeId;
use crate::wake::token::token;

const AFTER_HELP: &str = "\
The history in order of request instants, of what the tables and the audit stream hold: admitted,
merged into which run, refused by what, published again by whom, taken by a runner, ended. The
audit stream is read for what the tables do not hold: rejected events, and refusals that were
pruned.

An id of the form of a UUID is looked for as a wake and as a run, and if there is none, as a
task. A deduplicated wake leaves no row: its record names the run that it met, and `wakegate why`
of that run shows the rest.

In a terminal it is text, in a pipe one JSON object a line. The exit code is 1 where nothing was
found, and where the audit stream could not be read; what the tables hold is printed all the
same.

Examples:
  wakegate why t1 --organization acme
  wakegate why 019a3c5e-8f00-7c3a-b1d2-6f1f0a9b7c21
  wakegate why t1 | jq 'select(.what == \"refused\")'";

/// Arguments of `why`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct WhyArgs {
    /// A task, or the id of a wake or a run
    #[arg(value_name = "TASK|WAKE|RUN")]
    pub subject: String,
    /// The organization of the task
    #[arg(long, value_name = "ORGANIZATION", default_value = "", hide_default_value = true)]
    pub organization: String,
    /// Most runs, wakes of one run, refusals and keys, the newest of each
    #[arg(long, value_name = "ROWS", default_value_t = 200,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
    /// Leave the audit stream out, and NATS alone
    #[arg(long)]
    pub tables_only: bool,
    /// JSON also in a terminal
    #[arg(long)]
    pub json: bool,
}

/// Tells the history.
pub(super) fn execute(config: &Config, args: &WhyArgs) -> Result<Exit, Failure> {
    block_on(&mut Builder::new_current_thread(), tell(config, args))
}

async fn tell(config: &Config, args: &WhyArgs) -> Result<Exit, Failure> {
    match database(config).await? {
        AnyStore::Postgres(store) => Box::pin(tell_of(&store, config, args)).await,
        AnyStore::Sqlite(store) => Box::pin(tell_of(&store, config, args)).await,
    }
}

async fn tell_of<S: HistoryStore + RedriveStore>(
    store: &S,
    config: &Config,
    args: &WhyArgs,
) -> Result<Exit, Failure> {
    let failed = |error: StoreError| database_failure(config, &error);
    let mut found = look_up(store, args).await.map_err(failed)?;
    let audited = if args.tables_only || found.is_complete() {
        Ok(true)
    } else {
        audit(config, args, &mut found).await
    };
    found.history.redriven(store).await.map_err(failed)?;
    let cut = found.history.cut.clone();
    let entries = found.history.entries();
    print(&written(&entries, Form::of_output(args.json)))?;
    if !cut.is_empty() {
        complain(&format!("only the newest {} of each are shown; --limit shows more", args.limit));
    }
    if !audited? {
        complain(
            "the audit stream holds more than one reading takes; its newest events are missing",
        );
    }
    if entries.is_empty() {
        return Err(Failure::new(format!("nothing is known of {}", shown(&args.subject))).remedy(
            "a task is looked for in --organization; a deduplicated wake leaves no row, and a \
             wake that waits on the stream none yet",
        ));
    }
    Ok(Exit::Done)
}

struct Found {
    history: History,
    id: Option<WakeId>,
    /// The tables hold the wake or run with this id.
    by_id: bool,
}

impl Found {
    /// A wake or run that is on record is so with all of it.
    fn is_complete(&self) -> bool {
        self.by_id
    }
}

async fn look_up<S: HistoryStore>(store: &S, args: &WhyArgs) -> Result<Found, StoreError> {
    let id = (args.subject.len() == 36).then(|| args.subject.parse::<Uuid>().ok()).flatten();
    let id = id.map(WakeId::from);
    if let Some(id) = id {
        let history = History::of_id(store, id, args.limit).await?;
        if !history.is_empty() {
            return Ok(Found { history, id: Some(id), by_id: true });
        }
    }
    let task =
        TaskKey { organization_id: args.organization.clone(), task_id: args.subject.clone() };
    let history = History::of_task(store, &task, args.limit).await?;
    Ok(Found { history, id, by_id: false })
}

/// Adds what the audit stream says; whether that was all of it.
async fn audit(config: &Config, args: &WhyArgs, found: &mut Found) -> Result<bool, Failure> {
    const REMEDY: &str = "what was rejected, or refused and pruned, is missing here; --tables-only \
                          does not ask for it";
    let broker = connect(config).await.map_err(|failure| failure.remedy(REMEDY))?;
    let organization = token(&args.organization);
    // A wake's id begins with the instant at which it was stored, and nothing is said of it earlier.
    // Its organization is not known.
    let stored_at = found.id.filter(|_| found.history.is_empty()).and_then(WakeId::stored_at);
    let within = stored_at.is_none().then_some(&*organization);
    let is_asked = |record: &serde_json::Value| match found.id {
        Some(id) if record["wake_id"] == id.to_string() => true,
        _ => {
            record["task_id"] == *args.subject
                && record["organization_id"].as_str().unwrap_or_default() == args.organization
        }
    };
    let mut events = Vec::new();
    let all = past(&broker.jetstream(), None, within, stored_at, |class, record| {
        if is_asked(&record) {
            events.push((class.to_owned(), record));
        }
    })
    .await
    .map_err(|error| Failure::new(one_line(&error)).remedy(REMEDY))?;
    for (class, record) in events {
        found.history.audited(&class, record);
    }
    Ok(all)
}

/// Entries as lines: text, or JSON.
#[must_use]
pub fn written(entries: &[Entry], form: Form) -> String {
    let mut text = String::new();
    for entry in entries {
        let Form::Table { width } = form else {
            text += &json_line(entry);
            continue;
        };
        let id = entry.wake_id.or(entry.run_id).map(|id| id.to_string()).unwrap_or_default();
        let _ = writeln!(text, "{}  {:<9}  {id}", entry.at, entry.what.as_str());
        let detail = match &entry.reason {
            Some(reason) if entry.detail.is_empty() => reason.clone(),
            Some(reason) => format!("{reason}: {}", entry.detail),
            None => entry.detail.clone(),
        };
        let _ = writeln!(text, "    {}", wrapped(&shown(&detail), 4, width));
    }
    text
}
