//! Gate 1: may this agent run?

use super::{Gate, GateName, Posture, Verdict};
use crate::admission::decision::{Decision, Refusal};
use crate::admission::facts::{AgentStatus, Facts, ReadFailure};
use crate::wake::Wake;

/// Hold: an agent that was stopped must not run because nobody could look.
pub const GATE: Gate = Gate { name: GateName::AgentStatus, posture: Posture::Hold, check };

/// Unknown agents pass: wakegate keeps no registry of agents, only of those an operator touched.
fn check(facts: &Facts, wake: &Wake) -> Result<Verdict, ReadFailure> {
    let agents = facts.agents.as_ref().map_err(Clone::clone)?;
    let status = agents.get(&(wake.organization_id.clone(), wake.agent_profile_id.clone()));
    Ok(match status {
        Some(AgentStatus::Paused) => Verdict::Conclude(Decision::Refuse(Refusal::AgentPaused)),
        Some(AgentStatus::Stopped) => Verdict::Conclude(Decision::Refuse(Refusal::AgentStopped)),
        Some(AgentStatus::PendingApproval) => {
            Verdict::Conclude(Decision::Refuse(Refusal::AgentPendingApproval))
        }
        None | Some(AgentStatus::Idle | AgentStatus::Working) => Verdict::Pass,
    })
}
