//! What is counted and logged of a settled event: once, and never for one decided before.

use crate::admission::decision::{Degraded, Refusal};
use crate::admission::{ALLOWANCE_WAKES_MAX, Decision};
use crate::metrics::{AllowanceReason, Metrics, Violation};
use crate::outcome::OutcomeKind;
use crate::wake::decode::{Content, Event};
use crate::wake::{Occurrence, UtcMicros, Wake};

use super::record::Outcome;

/// Counts and logs one settled event.
pub fn settled(metrics: &Metrics, event: &Event, outcome: &Outcome, now: UtcMicros) {
    if outcome.repeat {
        return;
    }
    let envelope = &event.envelope;
    metrics.wake(outcome.kind, envelope.producer.class());
    metrics.wake_latency(now.since(UtcMicros::from_nanos(envelope.stored_at_nanos)));
    if envelope.outcome_to_ignored {
        metrics.contract_violation(Violation::OutcomeSubject);
    }
    match &event.content {
        Content::Wake(wake) => of_wake(metrics, wake, outcome),
        Content::NoWake(_) => {}
        Content::Rejected(rejection) => {
            metrics.rejected(rejection.reason);
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
