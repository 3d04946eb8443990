//! Gate 7: a key that exists at any age.

use super::{Gate, GateName, Posture, Verdict, duplicate};
use crate::admission::decision::{Decision, DuplicateKind};
use crate::admission::facts::{Facts, ReadFailure};
use crate::admission::sight::Sight;
use crate::wake::Wake;

/// Hold, by the keys' read, which it shares with gate 3. What another lane inserts between that
/// read and the write is caught by the write, and the batch is decided again.
pub const GATE: Gate = Gate { name: GateName::Insert, posture: Posture::Hold, check, sight };

/// Aged out of the lookback, or dated after this wake: still the same occurrence.
fn check(facts: &Facts, wake: &Wake) -> Result<Verdict, ReadFailure> {
    let Some(key) = wake.occurrence.key() else { return Ok(Verdict::Pass) };
    let keys = facts.keys.as_ref().map_err(Clone::clone)?;
    Ok(match keys.get(&(wake.organization_id.clone(), key.clone())) {
        Some(sightings) => Verdict::Conclude(Decision::Deduplicate {
            kind: DuplicateKind::Durable,
            run_id: sightings.run_id,
        }),
        None => Verdict::Pass,
    })
}

fn sight(facts: &Facts, wake: &Wake) -> Result<Sight, ReadFailure> {
    let Some(key) = wake.occurrence.key() else { return Ok(duplicate::keyless(wake)) };
    let keys = facts.keys.as_ref().map_err(Clone::clone)?;
    let looked_at =
        format!("key \"{key}\" of organization \"{}\", at any time", wake.organization_id);
    Ok(match keys.get(&(wake.organization_id.clone(), key.clone())) {
        Some(sightings) => {
            Sight::of(looked_at, format!("first seen with run {}", sightings.run_id))
                .with("run_id", sightings.run_id.to_string())
        }
        None => Sight::of(looked_at, "never seen"),
    })
}
