//! Gate 2: is the platform or the organization paused?

use super::{Gate, GateName, Posture, Verdict};
use crate::admission::decision::{Decision, Refusal};
use crate::admission::facts::{Facts, ReadFailure};
use crate::wake::Wake;

/// Closed: a kill switch that fails open is not a kill switch.
pub const GATE: Gate = Gate { name: GateName::Pause, posture: Posture::Closed, check };

/// The platform's pause is named before the organization's. Both modes refuse here.
fn check(facts: &Facts, wake: &Wake) -> Result<Verdict, ReadFailure> {
    let pauses = facts.pauses.as_ref().map_err(Clone::clone)?;
    if let Some(pause_id) = &pauses.platform {
        let pause_id = pause_id.clone();
        return Ok(Verdict::Conclude(Decision::Refuse(Refusal::PlatformPaused { pause_id })));
    }
    Ok(match pauses.organizations.get(&wake.organization_id) {
        Some(pause_id) => Verdict::Conclude(Decision::Refuse(Refusal::OrganizationPaused {
            pause_id: pause_id.clone(),
        })),
        None => Verdict::Pass,
    })
}
