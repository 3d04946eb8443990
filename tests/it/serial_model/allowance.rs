//! The bound itself, told from outcomes and instants alone, without the model
//! (AC-OFFICE-ASSIGN-RATE-001.2, 002.1).

use std::collections::HashMap;

use serde_json::Value;

use super::answer::{Answer, Played};
use super::trace::{Body, Control, Event, Step, Trace};

const WINDOW: i64 = 600_000_000;

/// The task that an agent-initiated assignment wake is for.
pub fn assigned_by_agent(event: &Event) -> Option<(&str, &str)> {
    let task = match &event.body {
        Body::Mutation { task, acting: Some(acting), .. } if !acting.is_empty() => *task,
        Body::Request { reason: "task_assigned", payload, .. } => {
            let by_agent = payload.get("actor_type") == Some(&Value::from("agent"));
            payload.get("task_id").and_then(Value::as_str).filter(|_| by_agent)?
        }
        _ => return None,
    };
    (!task.is_empty()).then_some((event.organization, task))
}

/// First deliveries: the event, its index, its answer.
fn firsts<'a>(
    trace: &'a Trace,
    played: &'a Played,
) -> impl Iterator<Item = (usize, &'a Event, &'a Answer)> {
    let delivered = trace.steps.iter().filter(|step| !matches!(step, Step::Control(_)));
    delivered.zip(&played.answers).filter_map(|(step, answer)| match (step, answer) {
        (Step::Event(index), Some(answer)) => Some((*index, &trace.events[*index], answer)),
        _ => None,
    })
}

/// Whether the bound is exact for a trace: no merge of wakes with different actors, nothing
/// admitted uncounted, nothing deleted, and no clock set back.
pub fn bounds(trace: &Trace, played: &Played) -> bool {
    let deleted =
        trace.steps.iter().any(|step| matches!(step, Step::Control(Control::DeleteSucceeded)));
    let exact = |(_, event, answer): (usize, &Event, &Answer)| {
        let mixed = answer.outcome == "coalesced"
            && answer.run.is_none_or(|run| {
                assigned_by_agent(&trace.events[run]) != assigned_by_agent(event)
            });
        !mixed && answer.degraded.as_deref() != Some("count_read_failed")
    };
    let instants: Vec<i64> =
        firsts(trace, played).map(|(_, _, answer)| answer.requested_at).collect();
    !deleted && instants.is_sorted() && firsts(trace, played).all(exact)
}

/// At most five admitted in any window, and none refused before five are.
pub fn bounded(trace: &Trace, played: &Played) -> Result<(), String> {
    let exact = bounds(trace, played);
    let mut admitted: HashMap<(&str, &str), Vec<i64>> = HashMap::new();
    for (index, event, answer) in firsts(trace, played) {
        let refused = answer.reason.as_deref() == Some("allowance_exhausted");
        if refused && answer.observed.is_none_or(|observed| observed < 5) {
            return Err(format!("event {index} was refused with {:?} counted", answer.observed));
        }
        let Some(task) = assigned_by_agent(event).filter(|_| exact) else { continue };
        let instants = admitted.entry(task).or_default();
        let in_window = |at: &&i64| **at > answer.requested_at - WINDOW;
        let counted = instants.iter().filter(in_window).count();
        if refused && counted < 5 {
            return Err(format!("event {index} was refused with {counted} admitted"));
        }
        if answer.outcome == "queued" {
            instants.push(answer.requested_at);
            if counted >= 5 {
                return Err(format!("event {index} was admitted with {counted} admitted"));
            }
        }
    }
    Ok(())
}
