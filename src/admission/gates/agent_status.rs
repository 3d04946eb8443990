//! Gate 1: may this agent run?

use super::{Gate, GateName, Posture, Verdict};
use crate::admission::decision::{Decision, Refusal};
use crate::admission::facts::{AgentStatus, Facts, ReadFailure};
use crate::admission::sight::Sight;
use crate::wake::Wake;

/// Hold: an agent that was stopped must not run because nobody could look.
pub const GATE: Gate = Gate { name: GateName::AgentStatus, posture: Posture::Hold, check, sight };

/// Unknown agents pass: wakegate keeps no registry of agents, only of those an operator touched.
fn check(facts: &Facts, wake: &Wake) -> Result<Verdict, ReadFailure> {
    Ok(match status(facts, wake)? {
        Some(AgentStatus::Paused) => Verdict::Conclude(Decision::Refuse(Refusal::AgentPaused)),
        Some(AgentStatus::Stopped) => Verdict::Conclude(Decision::Refuse(Refusal::AgentStopped)),
        Some(AgentStatus::PendingApproval) => {
            Verdict::Conclude(Decision::Refuse(Refusal::AgentPendingApproval))
        }
        None | Some(AgentStatus::Idle | AgentStatus::Working) => Verdict::Pass,
    })
}

fn status(facts: &Facts, wake: &Wake) -> Result<Option<AgentStatus>, ReadFailure> {
    let agents = facts.agents.as_ref().map_err(Clone::clone)?;
    Ok(agents.get(&(wake.organization_id.clone(), wake.agent_profile_id.clone())).copied())
}

fn sight(facts: &Facts, wake: &Wake) -> Result<Sight, ReadFailure> {
    let status = status(facts, wake)?;
    let looked_at =
        format!("agent \"{}\" of organization \"{}\"", wake.agent_profile_id, wake.organization_id);
    let saw = match status {
        None => "no status on record, so it may run".to_owned(),
        Some(status) => format!("status {}", status.as_str()),
    };
    Ok(Sight::of(looked_at, saw).with_some("status", status.map(AgentStatus::as_str)))
}
