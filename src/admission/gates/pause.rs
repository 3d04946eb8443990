//! Gate 2: is the platform or the organization paused?

use super::{Gate, GateName, Posture, Verdict};
use crate::admission::decision::{Decision, Refusal};
use crate::admission::facts::{Facts, ReadFailure};
use crate::admission::sight::Sight;
use crate::wake::Wake;

/// Closed: a kill switch that fails open is not a kill switch.
pub const GATE: Gate = Gate { name: GateName::Pause, posture: Posture::Closed, check, sight };

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

fn sight(facts: &Facts, wake: &Wake) -> Result<Sight, ReadFailure> {
    let pauses = facts.pauses.as_ref().map_err(Clone::clone)?;
    let platform = pauses.platform.as_deref();
    let organization = pauses.organizations.get(&wake.organization_id).map(String::as_str);
    let saw = match (platform, organization) {
        (None, None) => "none in force".to_owned(),
        (Some(platform), None) => format!("the platform's pause \"{platform}\" in force"),
        (None, Some(organization)) => {
            format!("the organization's pause \"{organization}\" in force")
        }
        (Some(platform), Some(organization)) => format!(
            "the platform's pause \"{platform}\" and the organization's \"{organization}\" in force"
        ),
    };
    let looked_at =
        format!("the pauses of the platform and of organization \"{}\"", wake.organization_id);
    Ok(Sight::of(looked_at, saw)
        .with_some("platform_pause_id", platform)
        .with_some("organization_pause_id", organization))
}
