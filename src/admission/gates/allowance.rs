//! Gate 5: has this task used up its allowance of agent-initiated assignment wakes?

use super::{Gate, GateName, Posture, Verdict};
use crate::admission::decision::{Decision, Degraded, Refusal};
use crate::admission::facts::{Facts, ReadFailure};
use crate::admission::{ALLOWANCE_WAKES_MAX, ALLOWANCE_WINDOW, OBSERVED_COUNT_MAX};
use crate::wake::{TASK_ASSIGNED, TaskField, UtcMicros, Wake};

/// Open: failing closed would trade a bounded cost problem for an unbounded liveness one
/// (AC-OFFICE-ASSIGN-RATE-002.2).
pub const GATE: Gate = Gate { name: GateName::Allowance, posture: Posture::Open, check };

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
    let counted = facts.counted.as_ref().map_err(Clone::clone)?;
    let start = wake.requested_at - ALLOWANCE_WINDOW;
    let newest_first: Vec<UtcMicros> = counted
        .by_task
        .get(&(wake.organization_id.clone(), task.clone()))
        .into_iter()
        .flat_map(|runs| runs.iter().rev())
        .map(|(at, _)| *at)
        .filter(|at| *at <= wake.requested_at)
        .take_while(|at| *at > start)
        .take(OBSERVED_COUNT_MAX as usize)
        .collect();
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
