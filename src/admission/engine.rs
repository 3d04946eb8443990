//! Walks the gates for each wake of a batch, noting what it decides in the facts.
//!
//! **Law: a batch decides as its wakes would one at a time.** `tests` hold it against a serial
//! model written independently.

use super::decision::{Decision, Degraded, Refusal};
use super::facts::{Facts, KeySightings, MergeBucket, ReadFailure};
use super::gates::allowance;
use super::gates::{GATES, GateName, Posture, Verdict};
use super::shadow::{Shadows, WouldRefuse};
use crate::wake::{Payload, RunId, Wake};

/// What became of a batch: decisions for its first wakes, and why the rest has to wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// One decision for each of the first wakes, in order.
    pub decisions: Vec<Decision>,
    /// What gates in shadow would have refused of these.
    pub would_refuse: WouldRefuse,
    /// Set where a gate held before the end: the wake after the last decision, and all behind it,
    /// wait for fresh facts.
    pub held: Option<Hold>,
}

/// A gate could not answer, and its posture is not to be open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The gate.
    pub gate: GateName,
    /// Hold or closed.
    pub posture: Posture,
    /// The read that failed.
    pub failure: ReadFailure,
}

/// Decides wakes in stream order.
///
/// A wake that needs a fact that could not be read ends the batch there, as it would end the lane's
/// progress were wakes decided one at a time; wakes that do not need it are not affected.
pub fn decide_batch(facts: &mut Facts, wakes: &[&Wake], shadows: Shadows) -> Decided {
    let mut decided = Decided {
        decisions: Vec::with_capacity(wakes.len()),
        would_refuse: WouldRefuse::new(),
        held: None,
    };
    for (index, wake) in wakes.iter().enumerate() {
        match decide(facts, wake, shadows) {
            Ok((decision, refusals)) => {
                note(facts, wake, &decision);
                decided.decisions.push(decision);
                let refusals = refusals.into_iter().map(|refusal| (index, refusal));
                decided.would_refuse.extend(refusals);
            }
            Err(hold) => {
                decided.held = Some(hold);
                break;
            }
        }
    }
    decided
}

/// Walks the gates for one wake. Beside the decision stands what gates in shadow, up to the one that
/// concluded, would have refused it for.
///
/// # Errors
/// [`Hold`] where a gate needed a fact that could not be read and is not open. That is so in shadow
/// too: what a gate would have done cannot be told of facts that are not there.
pub fn decide(
    facts: &Facts,
    wake: &Wake,
    shadows: Shadows,
) -> Result<(Decision, Vec<Refusal>), Hold> {
    let mut degraded = None;
    let mut would_refuse = Vec::new();
    for gate in GATES {
        match (gate.check)(facts, wake) {
            Ok(Verdict::Pass) => {}
            Ok(Verdict::PassDegraded(note)) => degraded = Some(note),
            Ok(Verdict::Conclude(Decision::Refuse(refusal))) if shadows.has(gate.name) => {
                would_refuse.push(refusal);
            }
            Ok(Verdict::Conclude(decision)) => return Ok((decision, would_refuse)),
            Err(failure) => match gate.posture {
                Posture::Open => {
                    degraded = Some(Degraded::CountReadFailed { error: failure.to_string() });
                }
                Posture::Hold | Posture::Closed => {
                    return Err(Hold { gate: gate.name, posture: gate.posture, failure });
                }
            },
        }
    }
    Ok((Decision::Admit { degraded }, would_refuse))
}

/// Makes a decision a fact for the wakes behind it. A fact that could not be read stays unread.
fn note(facts: &mut Facts, wake: &Wake, decision: &Decision) {
    match decision {
        Decision::Admit { .. } => {
            see_key(facts, wake, wake.id);
            if let (Some(bucket), Ok(queued)) = (MergeBucket::of(wake), &mut facts.queued) {
                let actor_type = wake.payload.actor_type().cloned();
                queued.add(bucket, wake.requested_at, wake.id, actor_type);
            }
            if let Ok(room) = &mut facts.room {
                room.admit(wake);
            }
            if allowance::binds(wake) {
                count(facts, wake, (wake.requested_at, wake.id), &wake.payload);
            }
        }
        Decision::Merge { run_id, .. } => {
            see_key(facts, wake, *run_id);
            relabel(facts, wake, *run_id);
        }
        Decision::Repeat(_) | Decision::Deduplicate { .. } | Decision::Refuse(_) => {}
    }
}

fn see_key(facts: &mut Facts, wake: &Wake, run_id: RunId) {
    if let (Some(key), Ok(keys)) = (wake.occurrence.key(), &mut facts.keys) {
        keys.entry((wake.organization_id.clone(), key.clone()))
            .or_insert_with(|| KeySightings { run_id, seen: Vec::new() })
            .seen
            .push((wake.requested_at, run_id));
    }
}

/// A merge overwrites the run's payload and with it the actor that the allowance counts; the
/// run's own request instant stays.
fn relabel(facts: &mut Facts, wake: &Wake, run_id: RunId) {
    let Some(bucket) = MergeBucket::of(wake) else { return };
    let Ok(queued) = &mut facts.queued else { return };
    let Some(runs) = queued.by_bucket.get_mut(&bucket) else { return };
    let Some((&at, run)) = runs.iter_mut().find(|((_, id), _)| *id == run_id) else { return };
    run.actor_type = wake.payload.actor_type().cloned();
    if wake.reason.as_str() == crate::wake::TASK_ASSIGNED {
        count(facts, wake, at, &wake.payload);
    }
}

/// Puts a run into the count of its task, or takes it out, by what its payload now says.
fn count(facts: &mut Facts, wake: &Wake, run: (crate::wake::UtcMicros, RunId), payload: &Payload) {
    let (Some(task), Ok(counted)) = (payload.task().task(), &mut facts.counted) else { return };
    let runs = counted.by_task.entry((wake.organization_id.clone(), task.clone())).or_default();
    if payload.is_agent_initiated() {
        runs.insert(run);
    } else {
        runs.remove(&run);
    }
}
