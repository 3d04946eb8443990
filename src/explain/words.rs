//! An explanation for a terminal.

use std::fmt::Write as _;

use super::json::posture;
use super::walk::{Conclusion, GateLine, Walk};
use super::{Explanation, Told};
use crate::admission::decision::{Decision, PriorOutcome};
use crate::cli::table::{shown, wrapped};
use crate::wake::Wake;

/// The explanation, as lines no wider than `width`.
#[must_use]
pub fn text(explanation: &Explanation, width: u16) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<8} {}", wrapped(&shown(value), 9, width));
    };
    match &explanation.told {
        Told::NoWake(no_wake) => {
            line("event", &format!("a change of task \"{}\" that wakes nobody", no_wake.task_id));
            line("at", &explanation.at.to_string());
            line("answer", &format!("no_wake: {}", no_wake.cause.as_str()));
        }
        Told::Rejected(rejection) => {
            line("event", "no wake: it is at fault itself");
            line("at", &explanation.at.to_string());
            line("answer", &format!("rejected: {}", rejection.reason.as_str()));
            line("fault", &rejection.fault);
        }
        Told::Wake { wake, walk } => {
            line("event", &of_wake(wake));
            line("at", &explanation.at.to_string());
            line("answer", &answer(walk));
            for refusal in &walk.would_refuse {
                let (gate, reason) = (refusal.gate().as_str(), refusal.as_str());
                line("shadow", &format!("gate {gate} is in shadow; it would refuse: {reason}"));
            }
            if let Some(changes_at) = walk.changes_at {
                line("until", &format!("{changes_at}, nothing else happening"));
            }
            text.push('\n');
            for gate in &walk.gates {
                of_gate(&mut text, gate, width);
            }
        }
    }
    text
}

fn of_wake(wake: &Wake) -> String {
    let task = match wake.payload.task().task() {
        Some(task) => format!("task \"{task}\""),
        None => "no task".to_owned(),
    };
    format!(
        "a wake of agent \"{}\", reason \"{}\", {task}, organization \"{}\"",
        wake.agent_profile_id, wake.reason, wake.organization_id
    )
}

fn answer(walk: &Walk) -> String {
    match &walk.answer {
        Ok(decision) => of_decision(decision),
        Err(hold) => format!(
            "none: gate {} cannot read and is {}, so the lane waits",
            hold.gate.as_str(),
            posture(hold.posture)
        ),
    }
}

/// A decision in words.
#[must_use]
pub fn of_decision(decision: &Decision) -> String {
    match decision {
        Decision::Admit { degraded: None } => "queued: a new run".to_owned(),
        Decision::Admit { degraded: Some(degraded) } => {
            format!("queued: a new run, degraded: {}", degraded.reason().as_str())
        }
        Decision::Merge { run_id, .. } => format!("coalesced: into run {run_id}"),
        Decision::Deduplicate { kind, run_id }
        | Decision::Repeat(PriorOutcome::Deduplicated { kind, run_id }) => {
            format!("deduplicated: {}, with run {run_id}", kind.as_str())
        }
        Decision::Refuse(refusal) => format!("refused: {}", refusal.as_str()),
        Decision::Repeat(PriorOutcome::Queued { .. }) => "queued, as before".to_owned(),
        Decision::Repeat(PriorOutcome::Coalesced { run_id, .. }) => {
            format!("coalesced, as before: into run {run_id}")
        }
        Decision::Repeat(PriorOutcome::Refused { reason, .. }) => {
            format!("refused, as before: {reason}")
        }
    }
}

fn of_gate(text: &mut String, line: &GateLine, width: u16) {
    let conclusion = match &line.conclusion {
        Conclusion::Passes if line.in_shadow => "passes, in shadow".to_owned(),
        Conclusion::Passes => "passes".to_owned(),
        Conclusion::PassesDegraded(note) => format!("passes, degraded: {}", note.reason().as_str()),
        Conclusion::Concludes(decision) => of_decision(decision),
        Conclusion::WouldRefuse(refusal) => {
            format!("in shadow, passes; would be refused: {}", refusal.as_str())
        }
        Conclusion::CannotRead(_) => "cannot read, and is open".to_owned(),
        Conclusion::Holds(hold) => format!("cannot read, and is {}", posture(hold.posture)),
        Conclusion::NotReached => "not reached".to_owned(),
    };
    let (number, name) = (line.gate.number(), line.gate.as_str());
    let _ = writeln!(text, "{number} {name:<12}  {}", wrapped(&shown(&conclusion), 16, width));
    let mut detail = |name: &str, value: &str| {
        let _ = writeln!(text, "    {name:<9} {}", wrapped(&shown(value), 14, width));
    };
    if let Some(sight) = &line.sight {
        detail("looked at", &sight.looked_at);
        detail("saw", &sight.saw);
    }
    match &line.conclusion {
        Conclusion::CannotRead(failure) => detail("error", &failure.error),
        Conclusion::Holds(hold) => detail("error", &hold.failure.error),
        _ => {}
    }
    if let Some(changes_at) = line.changes_at {
        detail("until", &changes_at.to_string());
    }
}
