//! What operators make the model refuse.

use super::{Model, Wake};
use crate::serial_model::answer::Answer;
use crate::serial_model::trace::Scope;

impl Model {
    /// Gate 1: agent status.
    pub(super) fn blocked(&self, wake: &Wake) -> Option<Answer> {
        for (organization, agent, status) in &self.agents {
            if *organization == wake.organization && *agent == wake.agent {
                match *status {
                    "paused" => return Some(Answer::refused("agent_paused", wake.at)),
                    "stopped" => return Some(Answer::refused("agent_stopped", wake.at)),
                    "pending_approval" => {
                        return Some(Answer::refused("agent_pending_approval", wake.at));
                    }
                    _ => {}
                }
            }
        }
        None
    }

    /// Gate 2: pause, platform first.
    pub(super) fn paused(&self, wake: &Wake) -> Option<Answer> {
        for (id, scope) in &self.pauses {
            if *scope == Scope::Platform {
                let refused = Answer::refused("platform_paused", wake.at);
                return Some(Answer { pause: Some(id.clone()), ..refused });
            }
        }
        for (id, scope) in &self.pauses {
            if matches!(scope, Scope::Organization(name) if *name == wake.organization) {
                let refused = Answer::refused("organization_paused", wake.at);
                return Some(Answer { pause: Some(id.clone()), ..refused });
            }
        }
        None
    }
}
