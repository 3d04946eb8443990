//! What is counted and logged of a settled event: once, and never for one decided before.

use prometheus::local::LocalHistogram;

use crate::admission::decision::{Degraded, Refusal};
use crate::admission::{ALLOWANCE_WAKES_MAX, Decision};
use crate::metrics::{AllowanceReason, Metrics, Violation};
use crate::outcome::OutcomeKind;
use crate::wake::decode::{Content, Event};
use crate::wake::producer::ProducerClass;
use crate::wake::{Occurrence, UtcMicros, Wake};

use super::record::Outcome;

/// Counts and logs the events of one batch as they are settled. What every event moves is summed
/// up, and counted when this is dropped.
pub struct Report<'a> {
    metrics: &'a Metrics,
    /// When the batch was durable.
    durable_at: UtcMicros,
    wakes: Vec<(OutcomeKind, ProducerClass, u64)>,
    latencies: LocalHistogram,
}

impl<'a> Report<'a> {
    /// A report on a batch that has just become durable.
    #[must_use]
    pub fn new(metrics: &'a Metrics, durable_at: UtcMicros) -> Self {
        Self { metrics, durable_at, wakes: Vec::new(), latencies: metrics.wake_latencies() }
    }

    /// Notes one settled event.
    pub fn settled(&mut self, event: &Event, outcome: &Outcome) {
        if outcome.repeat {
            return;
        }
        let envelope = &event.envelope;
        let counted_as = (outcome.kind, envelope.producer.class());
        match self.wakes.iter_mut().find(|(kind, class, _)| (*kind, *class) == counted_as) {
            Some((.., wakes)) => *wakes += 1,
            None => self.wakes.push((counted_as.0, counted_as.1, 1)),
        }
        let latency = self.durable_at.since(UtcMicros::from_nanos(envelope.stored_at_nanos));
        self.latencies.observe(latency.as_secs_f64());
        if envelope.outcome_to_ignored {
            self.metrics.contract_violation(Violation::OutcomeSubject);
        }
        match &event.content {
            Content::Wake(wake) => of_wake(self.metrics, wake, outcome),
            Content::NoWake(_) => {}
            Content::Rejected(rejection) => {
                self.metrics.rejected(rejection.reason);
                tracing::warn!(
                    wake_id = %envelope.id,
                    stream_sequence = envelope.sequence,
                    reason = rejection.reason.as_str(),
                    fault = %rejection.fault,
                    "event rejected"
                );
            }
        }
    }
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        for (outcome, producer, wakes) in self.wakes.drain(..) {
            self.metrics.wakes(outcome, producer, wakes);
        }
        self.latencies.flush();
    }
}

fn of_wake(metrics: &Metrics, wake: &Wake, outcome: &Outcome) {
    if let Occurrence::Keyless(cause) = &wake.occurrence {
        metrics.keyless(*cause);
    }
    if wake.payload.is_agent_initiated() && !wake.producer.class().may_carry_agent_actor() {
        metrics.contract_violation(Violation::ForeignAgentActor);
        tracing::warn!(
            wake_id = %wake.id,
            producer = wake.producer.class().as_str(),
            "a producer other than task_mutation set an agent actor; it is gated all the same"
        );
    }
    for refusal in outcome.shadow.iter().flat_map(|shadow| &shadow.refusals) {
        metrics.would_refuse(refusal);
        tracing::info!(
            wake_id = %wake.id,
            agent_profile_id = %wake.agent_profile_id,
            organization_id = %wake.organization_id,
            gate = refusal.gate().as_str(),
            reason = refusal.as_str(),
            "wake let through: the gate that would refuse it is in shadow"
        );
    }
    match &outcome.decision {
        Some(Decision::Refuse(refusal)) => {
            metrics.refused(refusal);
            refused(metrics, wake, refusal);
        }
        Some(Decision::Admit { degraded: Some(degraded) }) => of_degraded(metrics, wake, degraded),
        Some(Decision::Deduplicate { kind, .. }) => metrics.deduplicated(*kind),
        _ => debug_assert_ne!(outcome.kind, OutcomeKind::Rejected, "a rejection has no decision"),
    }
}

fn refused(metrics: &Metrics, wake: &Wake, refusal: &Refusal) {
    if let Refusal::CapacityExhausted(overload) = refusal {
        metrics.overloaded(overload.boundary, overload.layer);
        tracing::warn!(
            wake_id = %wake.id,
            agent_profile_id = %wake.agent_profile_id,
            organization_id = %wake.organization_id,
            boundary = overload.boundary.as_str(),
            depth = overload.depth,
            capacity = overload.capacity,
            layer = overload.layer.as_str(),
            "wake refused: capacity exhausted"
        );
        return;
    }
    let Refusal::AllowanceExhausted { observed_count, .. } = refusal else {
        tracing::info!(
            wake_id = %wake.id,
            agent_profile_id = %wake.agent_profile_id,
            organization_id = %wake.organization_id,
            reason = refusal.as_str(),
            "wake refused"
        );
        return;
    };
    metrics.allowance_acted(AllowanceReason::AllowanceExhausted);
    // The five fields of AC-OFFICE-ASSIGN-RATE-003.3.
    tracing::warn!(
        task_id = wake.payload.task().task().map(tracing::field::display),
        agent_profile_id = %wake.agent_profile_id,
        acting_agent_id = wake.payload.actor_id().map(tracing::field::display),
        observed_count,
        allowance = ALLOWANCE_WAKES_MAX,
        wake_id = %wake.id,
        organization_id = %wake.organization_id,
        "agent-initiated assignment wake refused: allowance exhausted"
    );
}

fn of_degraded(metrics: &Metrics, wake: &Wake, degraded: &Degraded) {
    match degraded {
        // AC-OFFICE-ASSIGN-RATE-002.2: no observed count, for the failed read produced none.
        Degraded::CountReadFailed { error } => {
            metrics.allowance_acted(AllowanceReason::CountReadFailed);
            tracing::warn!(
                task_id = wake.payload.task().task().map(tracing::field::display),
                agent_profile_id = %wake.agent_profile_id,
                acting_agent_id = wake.payload.actor_id().map(tracing::field::display),
                allowance = ALLOWANCE_WAKES_MAX,
                error = %error,
                wake_id = %wake.id,
                organization_id = %wake.organization_id,
                "agent-initiated assignment wake admitted unchecked: its count could not be read"
            );
        }
        // AC-OFFICE-ASSIGN-RATE-002.3: no task, for it is what could not be determined.
        Degraded::TaskUnattributed => {
            metrics.allowance_acted(AllowanceReason::TaskUnattributed);
            tracing::warn!(
                reason = degraded.reason().as_str(),
                allowance = ALLOWANCE_WAKES_MAX,
                acting_agent_id = wake.payload.actor_id().map(tracing::field::display),
                wake_id = %wake.id,
                organization_id = %wake.organization_id,
                "agent-initiated assignment wake admitted unchecked: it names no task"
            );
        }
    }
}
