//! What is answered.

use schemars::JsonSchema;
use serde::Serialize;

use super::Ending;
use crate::store::queue::ClaimedRun;
use crate::wake::{OrganizationId, RunId, UtcMicros};

/// The reply to `claim`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ClaimReply {
    /// The runs that are the runner's now; none where there was no work for as long as it waited.
    pub runs: Vec<ClaimedRunDocument>,
}

/// A run that was claimed. Its payload comes with `start`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ClaimedRunDocument {
    /// Which.
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub run_id: RunId,
    /// This claim of it, which every request about it names; another claim has a greater one.
    pub fencing_token: u64,
    /// Until when it is to be started.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub lease_expires_at: UtcMicros,
    /// Its organization.
    #[schemars(with = "String")]
    pub organization_id: OrganizationId,
    /// Its project, of which no other run is active meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// The agent to be woken.
    pub agent_profile_id: String,
    /// Why.
    pub reason: String,
    /// The task, if the payload names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// When it was asked for.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub requested_at: UtcMicros,
    /// How many wakes it stands for.
    pub coalesced_count: u32,
    /// The kind of actor that asked for it, if the payload names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_type: Option<String>,
    /// Who asked for it, if the payload names somebody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_id: Option<String>,
    /// The key of the wake that it began with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The producer of the wake that it began with.
    pub producer: String,
    /// The trace of the wake that it began with, to go on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// The reply to `start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StartReply {
    /// Which.
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub run_id: RunId,
    /// What is to be done: text, as the wake had it.
    pub payload: String,
    /// Until when it is the runner's without a heartbeat.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub lease_expires_at: UtcMicros,
}

/// The reply to `heartbeat`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeartbeatReply {
    /// Which.
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub run_id: RunId,
    /// Until when it is the runner's without another heartbeat.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub lease_expires_at: UtcMicros,
    /// It is to end: the runner stops it and says so with `finish`, status `cancelled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancellationDocument>,
}

/// That a run is to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CancellationDocument {
    /// Since when.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub requested_at: UtcMicros,
    /// Who wants it to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The reply to `finish`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FinishReply {
    /// Which.
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub run_id: RunId,
    /// How it has ended, now or when this was asked before.
    pub status: Ending,
}

/// The reply to `withdraw`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WithdrawReply {
    /// Which.
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub run_id: RunId,
    /// What it is now.
    pub status: CancelState,
}

/// The reply to `cancel`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CancelReply {
    /// Which.
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub run_id: RunId,
    /// What it is now.
    pub status: CancelState,
    /// Since when it is to end, where its runner has yet to confirm that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub requested_at: Option<UtcMicros>,
}

/// What a run is that was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CancelState {
    /// It has ended.
    Cancelled,
    /// Its runner is told at its next heartbeat, and confirms.
    Cancelling,
}

impl From<ClaimedRun> for ClaimedRunDocument {
    fn from(run: ClaimedRun) -> Self {
        Self {
            run_id: run.run_id,
            fencing_token: run.fencing_token,
            lease_expires_at: run.lease_expires_at,
            organization_id: run.organization_id,
            project_id: run.project_id,
            agent_profile_id: run.agent_profile_id,
            reason: run.reason,
            task_id: run.task_id,
            actor_type: run.actor_type,
            actor_id: run.actor_id,
            idempotency_key: run.idempotency_key,
            producer: run.producer,
            requested_at: run.requested_at,
            coalesced_count: run.coalesced_count,
            traceparent: run.traceparent,
        }
    }
}
