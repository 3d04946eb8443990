//! Gate 3: was this occurrence seen within the last 24 hours?

use super::{Gate, GateName, Posture, Verdict};
use crate::admission::DUPLICATE_WINDOW;
use crate::admission::decision::{Decision, DuplicateKind};
use crate::admission::facts::{Facts, KeySightings, ReadFailure};
use crate::wake::{RunId, UtcMicros, Wake};

/// Hold: a duplicate admitted twice is a correctness defect.
pub const GATE: Gate = Gate { name: GateName::Duplicate, posture: Posture::Hold, check };

/// The window is `(t − 24 h, t]`, over inserts and merges alike. An older or a later sighting is
/// left to gate 7.
fn check(facts: &Facts, wake: &Wake) -> Result<Verdict, ReadFailure> {
    let Some(key) = wake.occurrence.key() else { return Ok(Verdict::Pass) };
    let keys = facts.keys.as_ref().map_err(Clone::clone)?;
    let sightings = keys.get(&(wake.organization_id.clone(), key.clone()));
    Ok(match sightings.map(|sightings| met(sightings, wake.requested_at)) {
        Some((kind @ DuplicateKind::Windowed, run_id)) => {
            Verdict::Conclude(Decision::Deduplicate { kind, run_id })
        }
        Some((DuplicateKind::Durable, _)) | None => Verdict::Pass,
    })
}

/// How a wake at this instant meets a key that is known: by the newest sighting within the
/// lookback, or else by the run that the key was first seen with.
#[must_use]
pub fn met(sightings: &KeySightings, at: UtcMicros) -> (DuplicateKind, RunId) {
    let start = at - DUPLICATE_WINDOW;
    let recent = sightings.seen.iter().filter(|(seen, _)| *seen > start && *seen <= at).max();
    match recent {
        Some(&(_, run_id)) => (DuplicateKind::Windowed, run_id),
        None => (DuplicateKind::Durable, sightings.run_id),
    }
}
