//! The outcome record: what became of one event, as a publisher asks for it and as audit events
//! carry it (contract, "Outcomes").

mod overload;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

pub use self::overload::OverloadRecord;
use crate::admission::decision::{Decision, DegradedReason, DuplicateKind, PriorOutcome, Refusal};
use crate::admission::{ALLOWANCE_WAKES_MAX, ALLOWANCE_WINDOW};
use crate::wake::decode::{Envelope, NoWake, Rejection};
use crate::wake::{
    ActorId, AgentId, IdempotencyKey, OrganizationId, Producer, ProjectId, RunId, TaskId,
    UtcMicros, Wake, WakeId,
};

/// What became of an event: the closed set of the `outcome` label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// It inserted a run.
    Queued,
    /// It joined a queued run.
    Coalesced,
    /// Its occurrence was seen before.
    Deduplicated,
    /// A gate declined it.
    Refused,
    /// A mutation that wakes nobody.
    NoWake,
    /// The event itself is at fault.
    Rejected,
}

impl OutcomeKind {
    /// Every outcome, in the contract's order.
    pub const ALL: [Self; 6] = [
        Self::Queued,
        Self::Coalesced,
        Self::Deduplicated,
        Self::Refused,
        Self::NoWake,
        Self::Rejected,
    ];

    /// As label and in the record.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Coalesced => "coalesced",
            Self::Deduplicated => "deduplicated",
            Self::Refused => "refused",
            Self::NoWake => "no_wake",
            Self::Rejected => "rejected",
        }
    }
}

/// What became of one event: the reply to `Wakegate-Outcome-To`, and the body of audit events. What
/// does not apply is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OutcomeRecord {
    /// See [`WakeId`].
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub wake_id: WakeId,
    /// What became of it.
    pub outcome: OutcomeKind,
    /// Why it was refused, rejected, deduplicated (`windowed`, `durable`) or woke nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub reason: Option<String>,
    /// With `queued`: what the allowance could not do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub degraded_reason: Option<&'static str>,
    /// What gates in shadow would have refused it for, in the order of the gates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub would_refuse: Vec<WouldRefuse>,
    /// The run: its own, or the one it met.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub run_id: Option<RunId>,
    /// Producer token of the subject.
    #[schemars(with = "String")]
    pub producer: Producer,
    /// The tenant, where the event could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub organization_id: Option<OrganizationId>,
    /// The project.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub project_id: Option<ProjectId>,
    /// The task that the payload names.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub task_id: Option<TaskId>,
    /// The assignee.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub agent_profile_id: Option<AgentId>,
    /// The agent that acted, where an agent did.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub acting_agent_id: Option<ActorId>,
    /// Admitted wakes in the window, as the allowance counted them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32")]
    pub observed_count: Option<u32>,
    /// N, where the allowance decided or could not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32")]
    pub allowance: Option<u32>,
    /// W in seconds, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub window_seconds: Option<u64>,
    /// When, with nothing else admitted, the next wake fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub retry_at: Option<UtcMicros>,
    /// The pause in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub pause_id: Option<String>,
    /// With `capacity_exhausted`: what was full.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OverloadRecord")]
    pub overload: Option<OverloadRecord>,
    /// The request instant.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub requested_at: UtcMicros,
    /// When it was decided, by the worker's clock.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub decided_at: UtcMicros,
    /// Name of the stream.
    pub stream: Arc<str>,
    /// Sequence on the stream.
    pub stream_sequence: u64,
    /// The key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub idempotency_key: Option<IdempotencyKey>,
    /// W3C trace context.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub traceparent: Option<Arc<str>>,
    /// What vendors say beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<Arc<str>>,
    /// With `rejected`: the fault in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub fault: Option<String>,
    /// With `rejected`: length of the body as received.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    pub body_bytes: Option<usize>,
    /// With `rejected`, in the audit stream: the first 64 KiB of the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub body_base64: Option<String>,
}

/// A refusal that was none, because its gate is in shadow; its fields are those of a refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WouldRefuse {
    /// The gate.
    pub gate: &'static str,
    /// What it would have refused for.
    pub reason: &'static str,
    /// Admitted wakes in the window, as the allowance counted them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32")]
    pub observed_count: Option<u32>,
    /// N, of the allowance.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32")]
    pub allowance: Option<u32>,
    /// W in seconds, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub window_seconds: Option<u64>,
    /// When, with nothing else admitted, the gate would let the next wake pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub retry_at: Option<UtcMicros>,
    /// The pause in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub pause_id: Option<String>,
    /// What was full, and whose limit it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OverloadRecord")]
    pub overload: Option<OverloadRecord>,
}

impl OutcomeRecord {
    /// The record of a wake, and of what gates in shadow would have refused it for.
    #[must_use]
    pub fn of_wake(
        envelope: &Envelope,
        wake: &Wake,
        decision: &Decision,
        would_refuse: &[Refusal],
        decided_at: UtcMicros,
    ) -> Self {
        let mut record = Self::blank(envelope, decided_at);
        record.organization_id = Some(wake.organization_id.clone());
        record.project_id.clone_from(&wake.project_id);
        record.task_id = wake.payload.task().task().cloned();
        record.agent_profile_id = Some(wake.agent_profile_id.clone());
        if wake.payload.is_agent_initiated() {
            record.acting_agent_id = wake.payload.actor_id().cloned();
        }
        record.idempotency_key = wake.occurrence.key().cloned();
        match decision {
            Decision::Admit { degraded } => {
                record.queued(degraded.as_ref().map(crate::admission::Degraded::reason));
            }
            Decision::Merge { run_id, .. } => record.met(OutcomeKind::Coalesced, *run_id, None),
            Decision::Deduplicate { kind, run_id } => {
                record.met(OutcomeKind::Deduplicated, *run_id, Some(*kind));
            }
            Decision::Refuse(refusal) => record.refused(envelope, refusal),
            Decision::Repeat(prior) => record.repeated(prior),
        }
        record.would_refuse = would_refuse
            .iter()
            .map(|refusal| Self::blank(envelope, decided_at).in_shadow(refusal, envelope))
            .collect();
        record
    }

    /// The record of a mutation that wakes nobody.
    #[must_use]
    pub fn of_no_wake(envelope: &Envelope, no_wake: &NoWake, decided_at: UtcMicros) -> Self {
        let mut record = Self::blank(envelope, decided_at);
        record.outcome = OutcomeKind::NoWake;
        record.reason = Some(no_wake.cause.as_str().to_owned());
        record.organization_id = Some(no_wake.organization_id.clone());
        record.project_id.clone_from(&no_wake.project_id);
        record.task_id = Some(no_wake.task_id.clone());
        record.acting_agent_id =
            no_wake.acting_agent_id.as_ref().and_then(|id| ActorId::parse(id.as_str()).ok());
        record
    }

    /// The record of an event at fault, without its body.
    #[must_use]
    pub fn of_rejection(envelope: &Envelope, rejection: &Rejection, decided_at: UtcMicros) -> Self {
        let mut record = Self::blank(envelope, decided_at);
        record.outcome = OutcomeKind::Rejected;
        record.reason = Some(rejection.reason.as_str().to_owned());
        record.fault = Some(rejection.fault.clone());
        record.body_bytes = Some(rejection.body.len());
        record
    }

    /// With the name of the worker that decided, where the record tells it.
    #[must_use]
    pub fn decided_by(mut self, component: &Arc<str>) -> Self {
        let in_shadow = self.would_refuse.iter_mut().filter_map(|would| would.overload.as_mut());
        for overload in self.overload.iter_mut().chain(in_shadow) {
            overload.component = Some(Arc::clone(component));
        }
        self
    }

    /// As JSON.
    ///
    /// # Panics
    /// Never: a record of strings and numbers is JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a record of strings and numbers is JSON")
    }

    fn blank(envelope: &Envelope, decided_at: UtcMicros) -> Self {
        Self {
            wake_id: envelope.id,
            outcome: OutcomeKind::Queued,
            reason: None,
            degraded_reason: None,
            would_refuse: Vec::new(),
            run_id: None,
            producer: envelope.producer.clone(),
            organization_id: None,
            project_id: None,
            task_id: None,
            agent_profile_id: None,
            acting_agent_id: None,
            observed_count: None,
            allowance: None,
            window_seconds: None,
            retry_at: None,
            pause_id: None,
            overload: None,
            requested_at: envelope.requested_at,
            decided_at,
            stream: Arc::clone(&envelope.stream),
            stream_sequence: envelope.sequence,
            idempotency_key: None,
            traceparent: envelope.traceparent.clone(),
            tracestate: envelope.tracestate.clone(),
            fault: None,
            body_bytes: None,
            body_base64: None,
        }
    }

    fn queued(&mut self, degraded: Option<DegradedReason>) {
        self.outcome = OutcomeKind::Queued;
        self.run_id = Some(self.wake_id);
        if let Some(reason) = degraded {
            self.degraded_reason = Some(reason.as_str());
            self.name_the_allowance();
        }
    }

    fn met(&mut self, outcome: OutcomeKind, run_id: RunId, kind: Option<DuplicateKind>) {
        self.outcome = outcome;
        self.run_id = Some(run_id);
        self.reason = kind.map(|kind| kind.as_str().to_owned());
    }

    fn refused(&mut self, envelope: &Envelope, refusal: &Refusal) {
        self.outcome = OutcomeKind::Refused;
        self.reason = Some(refusal.as_str().to_owned());
        match refusal {
            Refusal::AgentPaused | Refusal::AgentStopped | Refusal::AgentPendingApproval => {}
            Refusal::PlatformPaused { pause_id } | Refusal::OrganizationPaused { pause_id } => {
                self.pause_id = Some(pause_id.clone());
            }
            Refusal::AllowanceExhausted { observed_count, retry_at } => {
                self.name_the_allowance();
                self.observed_count = Some(*observed_count);
                self.retry_at = Some(*retry_at);
            }
            Refusal::CapacityExhausted(overload) => {
                self.overload = Some(OverloadRecord::of(overload, envelope, self.decided_at));
            }
        }
    }

    /// Of a blank record, what a refusal would have said in it.
    fn in_shadow(mut self, refusal: &Refusal, envelope: &Envelope) -> WouldRefuse {
        self.refused(envelope, refusal);
        WouldRefuse {
            gate: refusal.gate().as_str(),
            reason: refusal.as_str(),
            observed_count: self.observed_count,
            allowance: self.allowance,
            window_seconds: self.window_seconds,
            retry_at: self.retry_at,
            pause_id: self.pause_id,
            overload: self.overload,
        }
    }

    /// A refusal is repeated from its stored record instead, byte for byte.
    fn repeated(&mut self, prior: &PriorOutcome) {
        match prior {
            PriorOutcome::Queued { degraded, requested_at, decided_at } => {
                self.queued(*degraded);
                self.requested_at = *requested_at;
                self.decided_at = *decided_at;
            }
            PriorOutcome::Coalesced { run_id, requested_at, decided_at } => {
                self.met(OutcomeKind::Coalesced, *run_id, None);
                self.requested_at = *requested_at;
                self.decided_at = *decided_at;
            }
            PriorOutcome::Deduplicated { kind, run_id } => {
                self.met(OutcomeKind::Deduplicated, *run_id, Some(*kind));
            }
            PriorOutcome::Refused { reason, .. } => {
                self.outcome = OutcomeKind::Refused;
                self.reason = Some(reason.clone());
            }
        }
    }

    fn name_the_allowance(&mut self) {
        self.allowance = Some(ALLOWANCE_WAKES_MAX);
        self.window_seconds = Some(ALLOWANCE_WINDOW.as_secs());
    }
}
