//! Gate 5: has this task used up its allowance of agent-initiated assignment wakes?

use super::{Gate, GateName, Posture, Verdict};
use crate::admission::decision::{Decision, Degraded, Refusal};
use crate::admission::facts::{Facts, ReadFailure};
use crate::admission::sight::Sight;
use crate::admission::{ALLOWANCE_WAKES_MAX, ALLOWANCE_WINDOW, OBSERVED_COUNT_MAX};
use crate::wake::{ActorType, TASK_ASSIGNED, TaskField, TaskId, UtcMicros, Wake};

/// Open: failing closed would trade a bounded cost problem for an unbounded liveness one
/// (AC-OFFICE-ASSIGN-RATE-002.2).
pub const GATE: Gate = Gate { name: GateName::Allowance, posture: Posture::Open, check, sight };

/// Whether the allowance binds a wake: `task_assigned`, by an agent. It binds by payload shape,
/// whoever the producer is, keyed or not (AC-OFFICE-ASSIGN-RATE-001.1, .8, .12).
#[must_use]
pub fn binds(wake: &Wake) -> bool {
    wake.reason.as_str() == TASK_ASSIGNED && wake.payload.is_agent_initiated()
}

/// Reason, actor, task, in that order: the order is contract. A wake by no agent is out of scope
/// and moves nothing, even where it names no task either (AC-OFFICE-ASSIGN-RATE-002.3).
///
/// The decision is a count over the half-open window `(t − W, t]` and depends on no order within
/// it (AC-OFFICE-ASSIGN-RATE-001.10, .11).
fn check(facts: &Facts, wake: &Wake) -> Result<Verdict, ReadFailure> {
    if !binds(wake) {
        return Ok(Verdict::Pass);
    }
    let TaskField::Named(task) = wake.payload.task() else {
        return Ok(Verdict::PassDegraded(Degraded::TaskUnattributed));
    };
    let newest_first = newest_first(facts, wake, task)?;
    let allowed = ALLOWANCE_WAKES_MAX as usize;
    if newest_first.len() < allowed {
        return Ok(Verdict::Pass);
    }
    Ok(Verdict::Conclude(Decision::Refuse(Refusal::AllowanceExhausted {
        observed_count: u32::try_from(newest_first.len()).unwrap_or(OBSERVED_COUNT_MAX),
        // Once the N-th newest has left the window, N − 1 are in it.
        retry_at: newest_first[allowed - 1] + ALLOWANCE_WINDOW,
    })))
}

/// Instants of the runs that count, at most [`OBSERVED_COUNT_MAX`].
fn newest_first(facts: &Facts, wake: &Wake, task: &TaskId) -> Result<Vec<UtcMicros>, ReadFailure> {
    let counted = facts.counted.as_ref().map_err(Clone::clone)?;
    let start = wake.requested_at - ALLOWANCE_WINDOW;
    Ok(counted
        .by_task
        .get(&(wake.organization_id.clone(), task.clone()))
        .into_iter()
        .flat_map(|runs| runs.iter().rev())
        .map(|(at, _)| *at)
        .filter(|at| *at <= wake.requested_at)
        .take_while(|at| *at > start)
        .take(OBSERVED_COUNT_MAX as usize)
        .collect())
}

fn sight(facts: &Facts, wake: &Wake) -> Result<Sight, ReadFailure> {
    if !binds(wake) {
        let actor = match wake.payload.actor_type().map(ActorType::as_str) {
            Some(actor) => format!("actor type \"{actor}\""),
            None => "no actor type".to_owned(),
        };
        let saw = format!(
            "reason \"{}\" and {actor}: only {TASK_ASSIGNED} by an agent is bound",
            wake.reason
        );
        return Ok(Sight::of("whether the allowance binds the wake", saw));
    }
    let TaskField::Named(task) = wake.payload.task() else {
        let saw = "the payload names no task that could be counted";
        return Ok(Sight::of("whose allowance the wake uses", saw));
    };
    let newest_first = newest_first(facts, wake, task)?;
    let at = wake.requested_at;
    let looked_at = format!(
        "runs of organization \"{}\" and task \"{task}\" that agents assigned, requested after {} \
         and up to {at}",
        wake.organization_id,
        at - ALLOWANCE_WINDOW,
    );
    let (used, all) = (newest_first.len(), OBSERVED_COUNT_MAX as usize);
    let allowed = ALLOWANCE_WAKES_MAX as usize;
    let fits_at = used.checked_sub(allowed).map(|_| newest_first[allowed - 1] + ALLOWANCE_WINDOW);
    // Where there may be more than were read, the oldest is not known.
    let oldest = newest_first.last().filter(|_| used < all);
    let frees_at = oldest.map(|oldest| *oldest + ALLOWANCE_WINDOW);
    let saw = match (fits_at, frees_at) {
        (Some(fits_at), _) => format!("{used} of {allowed} used; the next wake fits at {fits_at}"),
        (None, Some(frees)) => format!("{used} of {allowed} used; next slot frees at {frees}"),
        (None, None) => format!("{used} of {allowed} used"),
    };
    let edges = newest_first.into_iter().map(|counted| counted + ALLOWANCE_WINDOW);
    Ok(Sight::of(looked_at, saw)
        .with("used", used)
        .with("allowance", allowed)
        .with("window_seconds", ALLOWANCE_WINDOW.as_secs())
        .with_some("slot_frees_at", frees_at.map(|at| at.to_string()))
        .with_some("fits_at", fits_at.map(|at| at.to_string()))
        .changing_at(edges))
}
