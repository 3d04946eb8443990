//! Gate 3: was this occurrence seen within the last 24 hours?

use super::{Gate, GateName, Posture, Verdict};
use crate::admission::DUPLICATE_WINDOW;
use crate::admission::decision::{Decision, DuplicateKind};
use crate::admission::facts::{Facts, KeySightings, ReadFailure};
use crate::admission::sight::Sight;
use crate::wake::{KeylessCause, Occurrence, RunId, UtcMicros, Wake};

/// Hold: a duplicate admitted twice is a correctness defect.
pub const GATE: Gate = Gate { name: GateName::Duplicate, posture: Posture::Hold, check, sight };

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

fn sight(facts: &Facts, wake: &Wake) -> Result<Sight, ReadFailure> {
    let Some(key) = wake.occurrence.key() else { return Ok(keyless(wake)) };
    let keys = facts.keys.as_ref().map_err(Clone::clone)?;
    let at = wake.requested_at;
    let start = at - DUPLICATE_WINDOW;
    let looked_at = format!(
        "where key \"{key}\" of organization \"{}\" was seen after {start} and up to {at}",
        wake.organization_id
    );
    let Some(sightings) = keys.get(&(wake.organization_id.clone(), key.clone())) else {
        return Ok(Sight::of(looked_at, "nowhere, at no time"));
    };
    let seen = sightings.seen.iter().filter(|(seen, _)| *seen > start && *seen <= at);
    let saw = match (seen.clone().max(), seen.count()) {
        (None, _) => "not then; gate 7 looks at all times".to_owned(),
        (Some((newest, run_id)), 1) => format!("once, at {newest} with run {run_id}"),
        (Some((newest, run_id)), times) => {
            format!("{times} times, last at {newest} with run {run_id}")
        }
    };
    let edges = edges(sightings);
    let (kind, run_id) = met(sightings, at);
    let met = (kind == DuplicateKind::Windowed).then(|| run_id.to_string());
    Ok(Sight::of(looked_at, saw).with_some("run_id", met).changing_at(edges))
}

/// What both gates that look at keys say of a wake that has none.
pub(super) fn keyless(wake: &Wake) -> Sight {
    let why = match &wake.occurrence {
        Occurrence::Keyless(KeylessCause::Unresolved) => "its assignment generation is unresolved",
        Occurrence::Keyless(KeylessCause::ByDesign) | Occurrence::Keyed(_) => "none was chosen",
    };
    Sight::of("the wake's key", format!("it has none ({why}), so it is no repetition"))
}

/// When a sighting comes into the lookback, and when it leaves it.
pub(super) fn edges(sightings: &KeySightings) -> impl Iterator<Item = UtcMicros> {
    sightings.seen.iter().flat_map(|(seen, _)| [*seen, *seen + DUPLICATE_WINDOW])
}
