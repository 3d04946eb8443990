//! `wakegate explain`: what would become of an event, and why.

use std::path::PathBuf;

use clap::Args;
use tokio::runtime::Builder;

use super::publish::events::EventFault;
use super::publish::message::Outgoing;
use super::servers::{AnyStore, block_on, database};
use super::table::{Form, json_line};
use super::times::instant;
use super::{Exit, Failure, print, publish};
use crate::clock::Clock;
use crate::config::Config;
use crate::explain::{Explanation, explain, json, message, words};
use crate::wake::UtcMicros;

const AFTER_HELP: &str = "\
One event, read as `wakegate publish` reads it. It is decoded by the worker's decoder and decided
by the worker's gates, of what the database holds now; nothing is published and nothing is
written. Each gate says what it looked at, what it saw and what it concluded; `until` is the
instant at which, nothing else happening, its answer is another one.

--at asks as if the event were stored at another instant. What is in the database is what is
there now, and the instant is this machine's clock where none is given; a worker judges by the
stream's.

In a terminal it is text, in a pipe one line of JSON. The exit code is 0 whatever the answer, and
1 where there is none: the database cannot be read, and the worker would wait.

Examples:
  wakegate explain event.json
  wakegate explain --at 2026-11-01T12:10:00Z event.json
  jq -c '.[0]' events.json | wakegate explain --producer recovery_sweep - | jq .outcome";

/// Arguments of `explain`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct ExplainArgs {
    /// Producer token of the subject; by default it follows from the event's type
    #[arg(long, value_name = "TOKEN", value_parser = publish::producer_token)]
    pub producer: Option<String>,
    /// Instant at which the event would be stored, RFC 3339; by default now
    #[arg(long, value_name = "INSTANT", value_parser = instant)]
    pub at: Option<UtcMicros>,
    /// JSON also in a terminal
    #[arg(long)]
    pub json: bool,
    /// File with one JSON event; `-` is standard input
    #[arg(value_name = "EVENT", default_value = "-")]
    pub file: PathBuf,
}

/// Explains.
pub(super) fn execute(config: &Config, args: &ExplainArgs) -> Result<Exit, Failure> {
    let event = only(publish::messages(publish::open(&args.file)?, args.producer.clone()))?;
    let at = args.at.unwrap_or_else(|| Clock::system().now());
    let explanation = block_on(&mut Builder::new_current_thread(), answer(config, &event, at))?;
    match Form::of_output(args.json) {
        Form::Json => print(&json_line(&json::object(&explanation)))?,
        Form::Table { width } => print(&words::text(&explanation, width))?,
    }
    Ok(if explanation.is_answered() { Exit::Done } else { Exit::Failed })
}

async fn answer(config: &Config, event: &Outgoing, at: UtcMicros) -> Result<Explanation, Failure> {
    let message = message(&event.subject, &event.body, at);
    let (shadows, ceilings) = (config.gates.shadows, config.limits.enforced());
    Ok(match database(config).await? {
        AnyStore::Postgres(store) => Box::pin(explain(&store, &message, shadows, ceilings)).await,
        AnyStore::Sqlite(store) => Box::pin(explain(&store, &message, shadows, ceilings)).await,
    })
}

/// The one event of an input.
fn only(
    mut events: impl Iterator<Item = Result<Outgoing, EventFault>>,
) -> Result<Outgoing, Failure> {
    const REMEDY: &str = "give one JSON event, as a file or, with -, on standard input";
    let event = match events.next() {
        None => return Err(Failure::new("there is no event to explain").remedy(REMEDY)),
        Some(Err(fault)) => return Err(Failure::new(fault.to_string()).remedy(REMEDY)),
        Some(Ok(event)) => event,
    };
    match events.next() {
        None => Ok(event),
        Some(Ok(Outgoing { line, .. }) | Err(EventFault { line, .. })) => {
            let what = format!("line {line}: a second event; one is explained at a time");
            Err(Failure::new(what).remedy(REMEDY))
        }
    }
}
