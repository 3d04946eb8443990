//! `wakegate tail`: the audit stream as it grows.

use std::ops::ControlFlow;

use clap::builder::styling::{AnsiColor, Style};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use super::operators::{colours, complain, organization};
use super::servers::{block_on, connect};
use super::table::{Form, json_line, shown, wrapped};
use super::times::When;
use super::{Exit, Failure, print_on};
use crate::audit::AuditClass;
use crate::audit::live::{Begin, Heard, LiveEvent, Reader, Wanted};
use crate::clock::Clock;
use crate::config::Config;
use crate::explain::history::of_record;
use crate::wake::OrganizationId;
use crate::wake::token::token;

const AFTER_HELP: &str = "\
Each event is shown once and in order; when the server goes away, reading goes on where it was once
the server is back. Standard error says what the stream dropped before it could be read. Ctrl-C
ends it, with exit code 0, and so does a reader that goes away, such as `head`.

In a terminal it is text, in a pipe one JSON object a line: sequence and at (of the audit stream),
subject, class, reason, message_id, and the outcome record.

Examples:
  wakegate tail
  wakegate tail --since 2h --outcome refused --organization acme
  wakegate tail --since 2026-11-01T12:00:00Z --until-caught-up | jq -r .record.wake_id";

/// Arguments of `tail`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct TailArgs {
    /// Only this outcome; may be given more than once
    #[arg(long, value_enum)]
    pub outcome: Vec<ClassArg>,
    /// Only for this reason, such as `agent_paused`; may be given more than once
    #[arg(long, value_name = "REASON", value_parser = reason)]
    pub reason: Vec<String>,
    /// Only of this organization; '' is that of events which name none
    #[arg(long, value_name = "ID", value_parser = organization)]
    pub organization: Option<OrganizationId>,
    /// Only of this task
    #[arg(long, value_name = "TASK")]
    pub task: Option<String>,
    /// Begin so long ago, or at an instant: 90m, 36h, 2d, 2026-11-01T12:00:00Z
    #[arg(long, value_name = "DURATION|INSTANT", value_parser = When::parse)]
    pub since: Option<When>,
    /// End once everything is shown that there was at the beginning
    #[arg(long)]
    pub until_caught_up: bool,
    /// End after so many events
    #[arg(long, value_name = "EVENTS", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// JSON also in a terminal
    #[arg(long)]
    pub json: bool,
}

/// As an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ClassArg {
    /// A gate declined a wake
    Refused,
    /// A wake was admitted though a gate could not do its work
    Degraded,
    /// An event was at fault
    Rejected,
    /// Wakes were removed from the stream undecided
    Lost,
}

impl From<ClassArg> for AuditClass {
    fn from(class: ClassArg) -> Self {
        match class {
            ClassArg::Refused => Self::Refused,
            ClassArg::Degraded => Self::Degraded,
            ClassArg::Rejected => Self::Rejected,
            ClassArg::Lost => Self::Lost,
        }
    }
}

/// A reason is a token of the subject.
fn reason(text: &str) -> Result<String, String> {
    if token(text) == text {
        return Ok(text.to_owned());
    }
    Err("wants the name of a reason, such as allowance_exhausted".to_owned())
}

/// Shows.
pub(super) fn execute(config: &Config, args: &TailArgs) -> Result<Exit, Failure> {
    block_on(&mut Builder::new_current_thread(), async {
        let broker = connect(config).await?;
        let begin = match args.since {
            None => Begin::Now,
            Some(since) => Begin::Since(since.before(Clock::system().now())),
        };
        let wanted = Wanted {
            classes: args.outcome.iter().copied().map(AuditClass::from).collect(),
            reasons: args.reason.clone(),
            organization: args.organization.as_ref().map(|id| id.as_str().to_owned()),
            task: args.task.clone(),
        };
        let mut reader = Reader::new(broker.jetstream(), wanted, begin);
        let mut screen = Screen {
            form: Form::of_output(args.json),
            colours: colours(),
            left: args.limit,
            failed: None,
        };
        let ended = {
            let mut heard = |heard| screen.hear(heard);
            let follow = Box::pin(reader.follow(args.until_caught_up, &mut heard));
            tokio::select! {
                followed = follow => followed,
                interrupted = interrupted() => {
                    interrupted?;
                    Ok(())
                }
            }
        };
        reader.close().await;
        ended.map_err(|error| {
            Failure::new(error.to_string())
                .remedy("this user has to be let read WAKE_AUDIT, as `operator` of users.conf is")
        })?;
        screen.failed.map_or(Ok(Exit::Done), Err)
    })
}

/// Returns once somebody wants this to end.
async fn interrupted() -> Result<(), Failure> {
    let fault = |error: std::io::Error| Failure::of("cannot listen to signals", &error);
    let mut interrupt = signal(SignalKind::interrupt()).map_err(fault)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(fault)?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// Where it is shown.
struct Screen {
    form: Form,
    colours: bool,
    left: Option<u64>,
    failed: Option<Failure>,
}

impl Screen {
    fn hear(&mut self, heard: Heard) -> ControlFlow<()> {
        match heard {
            Heard::Event(event) => return self.show(&event),
            Heard::Dropped { from, to } => complain(&format!(
                "the stream dropped what was on it from sequence {from} to {to} before it was read"
            )),
            Heard::Behind { pending, kept } => complain(&format!(
                "{pending} events wait to be read, and the stream keeps {kept} of one subject: some \
                 may be dropped unread"
            )),
            Heard::Anew { from } => complain(&format!(
                "the audit stream is not as it was: its newest events are gone, or it was made anew; \
                 it is read from sequence {from}"
            )),
            Heard::Stray { sequence } => {
                complain(&format!("sequence {sequence} of the audit stream is no event"));
            }
            Heard::Away(error) => complain(&format!("{error}; trying again")),
            Heard::Back => complain("the server is back; reading goes on where it was"),
        }
        ControlFlow::Continue(())
    }

    fn show(&mut self, event: &LiveEvent) -> ControlFlow<()> {
        match print_on(&written(event, self.form, self.colours)) {
            Ok(true) => {}
            Ok(false) => return ControlFlow::Break(()),
            Err(failure) => {
                self.failed = Some(failure);
                return ControlFlow::Break(());
            }
        }
        match &mut self.left {
            Some(left @ 2..) => *left -= 1,
            Some(_) => return ControlFlow::Break(()),
            None => {}
        }
        ControlFlow::Continue(())
    }
}

/// An event as lines of text, or as one of JSON.
#[must_use]
pub fn written(event: &LiveEvent, form: Form, colours: bool) -> String {
    let (class, reason) = (event.token(1), event.token(2));
    let Form::Table { width } = form else {
        return json_line(&json!({
            "sequence": event.sequence,
            "at": event.at,
            "subject": event.subject,
            "class": class,
            "reason": reason,
            "message_id": event.message_id,
            "record": event.record,
        }));
    };
    let says = |name: &str| event.record.get(name).and_then(Value::as_str);
    let style = match (colours, class) {
        (false, _) => Style::new(),
        (true, "rejected" | "lost") => AnsiColor::Red.on_default().bold(),
        (true, "refused") => AnsiColor::Yellow.on_default().bold(),
        (true, _) => AnsiColor::Cyan.on_default().bold(),
    };
    let at = super::table::seconds(event.at);
    let id = shown(says("wake_id").unwrap_or("-"));
    let padding = " ".repeat(8_usize.saturating_sub(class.len()));
    let class = shown(class);
    let detail = match class.as_str() {
        "lost" => of_loss(&event.record),
        _ => of_event(&event.record),
    };
    let detail = wrapped(&shown(&format!("{reason}: {detail}")), 4, width);
    format!("{at}  {style}{class}{style:#}{padding}  {id}\n    {detail}\n")
}

/// Whose it is, and what its record adds.
fn of_event(record: &Value) -> String {
    let says = |name: &str| record.get(name).and_then(Value::as_str);
    let mut parts = Vec::new();
    for (name, words) in [("task_id", "task"), ("organization_id", "organization")] {
        if let Some(id) = says(name) {
            parts.push(format!("{words} \"{id}\""));
        }
    }
    if let Some(producer) = says("producer") {
        parts.push(format!("producer {producer}"));
    }
    let added = of_record(record);
    if !added.is_empty() {
        parts.push(added);
    }
    parts.join(", ")
}

fn of_loss(record: &Value) -> String {
    let said = |name: &str| record.get(name).map_or("?".to_owned(), Value::to_string);
    format!(
        "{} wakes behind sequence {} up to {}, undecided",
        said("wakes"),
        said("after_sequence"),
        said("up_to_sequence")
    )
}
