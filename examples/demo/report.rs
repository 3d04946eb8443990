//! What the reader of the demo sees: 80 columns, colours on a terminal only.

use std::error::Error;
use std::io::{self, IsTerminal, Write};

use serde_json::Value;

use crate::Result;
use crate::runs::{SLOTS, Turn};
use crate::stage::Counters;
use crate::story::Step;

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

/// Where it is written.
#[derive(Debug)]
pub(crate) struct Report {
    out: io::Stdout,
    coloured: bool,
    steps: u32,
}

impl Report {
    /// Standard output.
    pub(crate) fn to_stdout() -> Self {
        let out = io::stdout();
        let coloured = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { out, coloured, steps: 0 }
    }

    pub(crate) fn opening(&mut self) -> Result<()> {
        self.heading("wakegate turns wake events into runs, and says why when it does not.")?;
        self.line("A private nats-server and a private SQLite file are started, and end with this.")
    }

    pub(crate) fn step(&mut self, step: &Step) -> Result<()> {
        self.steps += 1;
        let title = format!("{}. {}", self.steps, step.title);
        self.heading(&title)?;
        for line in step.moral.lines() {
            self.line(&format!("   {line}"))?;
        }
        let source = self.paint(DIM, &format!("   {}", step.file));
        self.line(&source)
    }

    pub(crate) fn event(&mut self, line: &str, record: &Value) -> Result<()> {
        let event = serde_json::from_str(line).unwrap_or_default();
        let outcome = text(record, "outcome");
        let colour = match outcome {
            "queued" => GREEN,
            "refused" | "rejected" => RED,
            _ => YELLOW,
        };
        let outcome = self.paint(colour, &format!("{outcome:<12}"));
        self.line(&format!("   {:<32}  {outcome}  {}", what_happens(&event), why(record)))
    }

    pub(crate) fn audit(&mut self, events: &[(String, Value)]) -> Result<()> {
        self.heading("What an operator sees who subscribes to wake-audit.>")?;
        for (subject, record) in events {
            let subject = self.paint(RED, subject);
            self.line(&format!("   {subject}"))?;
            for detail in details(record) {
                self.line(&format!("     {detail}"))?;
            }
        }
        Ok(())
    }

    pub(crate) fn turns(&mut self, turns: &[Turn], events: usize) -> Result<()> {
        self.heading(&format!("Two organizations share {SLOTS} slots"))?;
        for line in [
            "A runner claims over NATS, starts and ends each run. acme has queued far more, and",
            "initech does not wait for it: a slot goes to whoever has the fewest under way.",
        ] {
            self.line(&format!("   {line}"))?;
        }
        for turn in turns {
            let slots: Vec<String> =
                turn.under_way.iter().map(|(who, runs)| format!("{who} {runs}")).collect();
            let who = self.paint(GREEN, &format!("{:<8}", turn.organization));
            self.line(&format!("   {who} {:<10} under way: {}", turn.task, slots.join(", ")))?;
        }
        self.line(&format!("   {events} events on run-events.> told of it, and nobody polled."))
    }

    pub(crate) fn metrics(&mut self, before: &Counters, after: &Counters) -> Result<()> {
        self.heading("The metrics that moved")?;
        for (name, value) in after {
            let moved = value - before.get(name).unwrap_or(&0.0);
            if moved > 0.0 {
                self.line(&format!("  {moved:>+4} {name}"))?;
            }
        }
        Ok(())
    }

    pub(crate) fn closing(&mut self) -> Result<()> {
        self.heading("To run it for real")?;
        for line in [
            "   export WAKEGATE_NATS_URL=nats://127.0.0.1:4222   # nats-server 2.11+",
            "   export WAKEGATE_DATABASE_URL=postgres://you@host/wakegate",
            "   cargo install --locked --path .",
            "   wakegate migrate && wakegate streams apply && wakegate run",
            "",
            "   wakegate publish --outcome examples/demo/events/1-a-person-assigns.jsonl",
            "   nats sub 'wake-audit.>'",
            "   curl -s 127.0.0.1:9464/metrics",
            "",
            "   README.md and docs/operations.md tell the rest.",
        ] {
            self.line(line)?;
        }
        Ok(())
    }

    /// Best effort: there is nowhere left to report a failure to.
    pub(crate) fn failed(&mut self, error: &dyn Error) {
        let _ = self.out.flush();
        let _ = writeln!(io::stderr(), "\nThe demo failed: {error}");
    }

    fn heading(&mut self, text: &str) -> Result<()> {
        let text = self.paint(BOLD, text);
        self.line(&format!("\n{text}"))
    }

    fn line(&mut self, text: &str) -> Result<()> {
        Ok(writeln!(self.out, "{text}")?)
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.coloured { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// An event in a few words.
fn what_happens(event: &Value) -> String {
    if text(event, "type") == "wake.requested.v1" {
        return format!("{} for {}", text(event, "reason"), text(event, "agent_profile_id"));
    }
    let actor = event["acting_agent_id"].as_str().unwrap_or("a person");
    let task = text(event, "task_id");
    match text(event, "new_assignee_agent_profile_id") {
        "" => format!("{actor} unassigns {task}"),
        agent => format!("{actor} assigns {task} to {agent}"),
    }
}

/// Why the outcome is what it is.
fn why(record: &Value) -> String {
    let reason = text(record, "reason");
    let run = text(record, "run_id");
    let run = &run[run.len().saturating_sub(6)..];
    match text(record, "outcome") {
        "queued" => format!("run ..{run}"),
        "coalesced" => format!("joined run ..{run}"),
        "deduplicated" => format!("{reason}: run ..{run}"),
        _ => reason.to_owned(),
    }
}

/// What an audit event says, beyond its subject.
fn details(record: &Value) -> Vec<String> {
    let mut who = Vec::new();
    for (label, field) in [
        ("task", "task_id"),
        ("agent", "agent_profile_id"),
        ("by", "acting_agent_id"),
        ("pause", "pause_id"),
        ("sequence", "stream_sequence"),
    ] {
        match &record[field] {
            Value::String(value) => who.push(format!("{label} {value}")),
            Value::Number(value) => who.push(format!("{label} {value}")),
            _ => {}
        }
    }
    let mut lines = vec![who.join(", ")];
    if let (Some(count), Some(allowance)) =
        (record["observed_count"].as_u64(), record["allowance"].as_u64())
    {
        let retry_at = text(record, "retry_at");
        lines.push(format!("{count} of {allowance} used, the next one fits at {retry_at}"));
    }
    if let Some(fault) = record["fault"].as_str() {
        lines.push(fault.to_owned());
    }
    lines
}
