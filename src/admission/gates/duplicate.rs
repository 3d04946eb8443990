//! Gate 3: was this occurrence seen within the last 24 hours?

use super::{Gate, GateName, Posture, Verdict};
use crate::admission::DUPLICATE_WINDOW;
use crate::admission::decision::{Decision, DuplicateKind};
use crate::admission::facts::{Facts, ReadFailure};
use crate::wake::Wake;

/// Hold: a duplicate admitted twice is a correctness defect.
pub const GATE: Gate = Gate { name: GateName::Duplicate, posture: Posture::Hold, check };

/// The window is `(t − 24 h, t]`, over inserts and merges alike. An older or a later sighting is
/// left to gate 7.
fn check(facts: &Facts, wake: &Wake) -> Result<Verdict, ReadFailure> {
    let Some(key) = wake.occurrence.key() else { return Ok(Verdict::Pass) };
    let keys = facts.keys.as_ref().map_err(Clone::clone)?;
    let start = wake.requested_at - DUPLICATE_WINDOW;
    let met = keys
        .get(&(wake.organization_id.clone(), key.clone()))
        .into_iter()
        .flat_map(|sightings| &sightings.seen)
        .filter(|(at, _)| *at > start && *at <= wake.requested_at)
        .max();
    Ok(match met {
        Some(&(_, run_id)) => {
            Verdict::Conclude(Decision::Deduplicate { kind: DuplicateKind::Windowed, run_id })
        }
        None => Verdict::Pass,
    })
}
