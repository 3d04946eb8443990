//! What is told of a run.

use schemars::JsonSchema;
use serde::Serialize;

use crate::store::queue::RunEvent;
use crate::wake::{OrganizationId, RunId, UtcMicros};

/// An event of a run. There may be more events one day: whoever reads them ignores what it does not
/// know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunEventDocument {
    /// `claimed`, `started`, `returned`, `cancel_requested`, `succeeded`, `failed`, `cancelled`,
    /// `expired`, `timed_out` or `limit_exceeded`.
    pub event: String,
    /// When.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: UtcMicros,
    /// Of which run.
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub run_id: RunId,
    /// Its organization.
    #[schemars(with = "String")]
    pub organization_id: OrganizationId,
    /// Its project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// Its task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Its agent.
    pub agent_profile_id: String,
    /// Which claim of it: greater is later; 0 before the first.
    pub fencing_token: u64,
    /// The runner that has it, or had it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<String>,
    /// Why: as its runner or whoever cancelled it said, or `lease_lost`, `waited_too_long`,
    /// `unconfirmed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who cancelled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The trace that it is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

impl From<&RunEvent> for RunEventDocument {
    fn from(event: &RunEvent) -> Self {
        Self {
            event: event.event.as_str().to_owned(),
            at: event.at,
            run_id: event.run_id,
            organization_id: event.organization_id.clone(),
            project_id: event.project_id.clone(),
            task_id: event.task_id.clone(),
            agent_profile_id: event.agent_profile_id.clone(),
            fencing_token: event.fencing_token,
            runner_id: event.runner_id.clone(),
            reason: event.reason.clone(),
            actor: event.actor.clone(),
            traceparent: event.traceparent.clone(),
        }
    }
}
