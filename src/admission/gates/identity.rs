//! Gate 0: a wake already decided repeats its recorded outcome.

use super::{Gate, GateName, Posture, Verdict, duplicate};
use crate::admission::decision::{Decision, PriorOutcome};
use crate::admission::facts::{Facts, ReadFailure};
use crate::admission::sight::Sight;
use crate::wake::Wake;

/// Hold: without it a redelivery could run twice, or change its answer.
pub const GATE: Gate = Gate { name: GateName::Identity, posture: Posture::Hold, check, sight };

/// Runs, merges and refusals are found by the wake's id. A deduplicated wake has no row of its
/// own; it is recognised by the lane's cursor being past it while its key is known. What the
/// cursor is past and has neither row nor key is decided again: it was set aside as unstorable or
/// poison, and comes out so again.
fn check(facts: &Facts, wake: &Wake) -> Result<Verdict, ReadFailure> {
    let prior = facts.identity.as_ref().map_err(Clone::clone)?;
    if let Some(outcome) = prior.get(&wake.id) {
        return Ok(Verdict::Conclude(Decision::Repeat(outcome.clone())));
    }
    if wake.sequence > facts.decided_sequence {
        return Ok(Verdict::Pass);
    }
    let Some(key) = wake.occurrence.key() else { return Ok(Verdict::Pass) };
    let keys = facts.keys.as_ref().map_err(Clone::clone)?;
    Ok(match keys.get(&(wake.organization_id.clone(), key.clone())) {
        Some(sightings) => {
            let (kind, run_id) = duplicate::met(sightings, wake.requested_at);
            Verdict::Conclude(Decision::Repeat(PriorOutcome::Deduplicated { kind, run_id }))
        }
        None => Verdict::Pass,
    })
}

fn sight(facts: &Facts, wake: &Wake) -> Result<Sight, ReadFailure> {
    const LOOKED_AT: &str = "what is recorded of this very wake";
    let prior = facts.identity.as_ref().map_err(Clone::clone)?;
    if let Some(outcome) = prior.get(&wake.id) {
        let outcome = match outcome {
            PriorOutcome::Queued { .. } => "queued",
            PriorOutcome::Coalesced { .. } => "coalesced",
            PriorOutcome::Refused { .. } => "refused",
            PriorOutcome::Deduplicated { .. } => "deduplicated",
        };
        return Ok(Sight::of(LOOKED_AT, format!("{outcome}, by its id")).with("recorded", outcome));
    }
    let nothing = Sight::of(LOOKED_AT, "nothing");
    if wake.sequence > facts.decided_sequence {
        return Ok(nothing);
    }
    let Some(key) = wake.occurrence.key() else { return Ok(nothing) };
    let keys = facts.keys.as_ref().map_err(Clone::clone)?;
    Ok(match keys.get(&(wake.organization_id.clone(), key.clone())) {
        Some(sightings) => {
            Sight::of(LOOKED_AT, "no row of its own, but its lane is past it and its key is known")
                .changing_at(duplicate::edges(sightings))
        }
        None => nothing,
    })
}
