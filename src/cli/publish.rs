//! `wakegate publish`: events from a file or standard input become messages of the intake.

mod deliver;
pub mod events;
pub mod message;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tokio::runtime::Builder;

use self::deliver::deliver;
use self::events::{EventFault, Events};
use self::message::{MessageIds, Outgoing, PRODUCER_OF_REQUESTS};
use super::servers::block_on;
use super::{Exit, Failure};
use crate::config::Config;
use crate::wake::token::token;

/// How long `--outcome` waits unless told otherwise.
const OUTCOME_SECONDS_MAX: u64 = 30;

const AFTER_HELP: &str = "\
The subject is made from the event: its organization and its task. Each event is stored before the
next is sent, and its sequence is printed. A line that is at fault is reported with its number and
costs only itself; the exit code is then 1. It is 3 where the server called an event a duplicate.

Without --producer, a task.mutated.v1 is published as task_mutation and a wake.requested.v1 as cli,
which counts as `other`.

Examples:
  wakegate publish event.json                one event, printed over as many lines as you like
  wakegate publish events.jsonl              one event a line
  jq -c '.[]' events.json | wakegate publish --producer recovery_sweep
  wakegate publish event.json --outcome      wait, and print what became of it";

/// Arguments of `publish`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct PublishArgs {
    /// Producer token of the subject; by default it follows from the event's type
    #[arg(long, value_name = "TOKEN", value_parser = producer_token)]
    pub producer: Option<String>,
    /// Wait for what became of each event, and print it
    #[arg(long)]
    pub outcome: bool,
    /// How long to wait for each outcome, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = OUTCOME_SECONDS_MAX)]
    pub outcome_seconds_max: u64,
    /// File with one JSON event, or one event a line; `-` is standard input
    #[arg(default_value = "-")]
    pub file: PathBuf,
}

/// A producer is published as it is, so it has to be a token already.
pub(super) fn producer_token(text: &str) -> Result<String, String> {
    if token(text) == text {
        return Ok(text.to_owned());
    }
    Err(format!(
        "wants 1 to 64 ASCII letters, digits, `_` or `-`, such as task_lifecycle or \
         {PRODUCER_OF_REQUESTS}"
    ))
}

/// Publishes.
pub(super) fn execute(config: &Config, args: PublishArgs) -> Result<Exit, Failure> {
    let messages = messages(open(&args.file)?, args.producer);
    let outcome = args.outcome.then(|| Duration::from_secs(args.outcome_seconds_max));
    block_on(&mut Builder::new_current_thread(), deliver(config, messages, outcome))
}

/// Opens the input.
///
/// # Errors
/// The file cannot be opened.
pub fn open(file: &Path) -> Result<Box<dyn BufRead>, Failure> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    match File::open(file) {
        Ok(file) => Ok(Box::new(BufReader::new(file))),
        Err(error) => Err(Failure::of(format!("cannot open {}", file.display()), &error)
            .remedy("name a file with one JSON event, or one event a line; - is standard input")),
    }
}

/// The messages of an input, in order, read as they are asked for. Each has a message id of its
/// own, for each is an occurrence of its own.
pub fn messages(
    input: impl BufRead,
    producer: Option<String>,
) -> impl Iterator<Item = Result<Outgoing, EventFault>> {
    let mut ids = MessageIds::new();
    Events::of(input).map(move |event| Outgoing::of(event?, producer.as_deref(), ids.make()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_becomes_messages_and_each_fault_costs_only_itself() {
        let input = "{\"type\":\"task.mutated.v1\",\"task_id\":\"t1\"}\n\
                     {\"type\":\"task.mutated.v1\"}\n\
                     nonsense\n\
                     {\"type\":\"task.mutated.v1\",\"task_id\":\"t1\"}\n";
        let made: Vec<_> = messages(input.as_bytes(), Some("onboarding".to_owned())).collect();
        let subjects: Vec<_> = made
            .iter()
            .map(|made| match made {
                Ok(message) => (message.line, message.subject.as_str()),
                Err(fault) => (fault.line, fault.what.as_str()),
            })
            .collect();
        assert_eq!(
            subjects,
            [
                (1, "wakes.onboarding.-.t1"),
                (2, "task_id: is no string"),
                (3, "is not JSON: expected ident at column 2"),
                (4, "wakes.onboarding.-.t1"),
            ]
        );
        let ids: Vec<_> = made.iter().flatten().map(|message| &message.message_id).collect();
        assert_ne!(ids[0], ids[1], "the same event twice is two occurrences");
    }

    #[test]
    fn producers_are_tokens() {
        for (text, accepted) in [
            ("task_lifecycle", true),
            ("a-1", true),
            ("a.b", false),
            ("", false),
            ("-", false),
            ("*", false),
        ] {
            assert_eq!(producer_token(text).is_ok(), accepted, "{text:?}");
        }
        assert!(producer_token(&"a".repeat(64)).is_ok());
        assert!(producer_token(&"a".repeat(65)).is_err());
    }
}
