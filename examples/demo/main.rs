//! `make demo`: a story in events on a private nats-server and a private SQLite file, what became
//! of each event and why, what an operator sees of it, how two organizations' runs share three slots
//! until each has ended, and the metrics that moved.
//!
//! The events are in `examples/demo/events`, to be published again by hand. Nothing outlives the
//! demo; an outcome that is not the one the story promises makes it fail.

mod report;
mod runs;
mod servers;
mod stage;
mod story;

use std::error::Error;
use std::process::ExitCode;

use crate::report::Report;
use crate::stage::Stage;
use crate::story::{Runner, STORY, Step};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> ExitCode {
    let mut report = Report::to_stdout();
    let told = tokio::select! {
        told = tell(&mut report) => told,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
    };
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report.failed(&*error);
            ExitCode::FAILURE
        }
    }
}

async fn tell(report: &mut Report) -> Result<()> {
    report.opening()?;
    let mut stage = Stage::set().await?;
    let before = stage.counters().await?;

    let mut surprises = Vec::new();
    let mut published = 0;
    let mut audited = 0;
    for step in &STORY {
        report.step(step)?;
        if let Some(organization) = step.paused {
            stage.pause(organization).await?;
        }
        for (line, expected) in step.events.lines().zip(step.outcomes) {
            let outcome = perform(&stage, step, line).await?;
            report.event(line, &outcome)?;
            published += 1;
            audited += usize::from(matches!(*expected, "refused" | "rejected"));
            if outcome["outcome"] != *expected {
                surprises.push(format!("{line}\n    wanted {expected}, got {outcome}"));
            }
        }
    }

    report.audit(&stage.audit_events(audited).await?)?;
    published += stage.queue_runs().await?;
    report.turns(&runs::run_all(stage.client()).await?, stage.run_events().await?)?;
    report.metrics(&before, &stage.counters_after(published).await?)?;
    stage.strike().await?;
    if !surprises.is_empty() {
        return Err(format!("not as the story goes:\n  {}", surprises.join("\n  ")).into());
    }
    report.closing()
}

/// Publishes one event, learns what became of it, and claims its run where the story's runner is
/// quick. A claimed run takes no further wake in, so that the next one is a run of its own.
async fn perform(stage: &Stage, step: &Step, line: &str) -> Result<serde_json::Value> {
    let outcome = stage.publish(step.producer, line).await?;
    if step.runner == Runner::Quick {
        stage.claim_all().await?;
    }
    Ok(outcome)
}
