//! The outcome record of whatever was decoded, decided in every way: it is JSON, on one line, and says
//! what it was made from.

use serde_json::Value;
use uuid::Uuid;
use wakegate::admission::decision::{Decision, Degraded, DuplicateKind, Refusal};
use wakegate::outcome::OutcomeRecord;
use wakegate::wake::decode::{Content, decode};
use wakegate::wake::{UtcMicros, WakeId};

use super::decode::messages;
use crate::harness::schema;

/// See the module.
pub fn target(bytes: &[u8]) {
    let number = bytes.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(*byte));
    let text = String::from_utf8_lossy(bytes).into_owned();
    for message in messages(bytes) {
        let event = decode(&message);
        let envelope = &event.envelope;
        let at = UtcMicros::from_micros(i64::try_from(number % 4_000_000_000_000_000).unwrap());
        let records = match &event.content {
            Content::Rejected(rejection) => {
                vec![OutcomeRecord::of_rejection(envelope, rejection, at)]
            }
            Content::NoWake(no_wake) => vec![OutcomeRecord::of_no_wake(envelope, no_wake, at)],
            Content::Wake(wake) => decisions(number, &text)
                .iter()
                .map(|decision| OutcomeRecord::of_wake(envelope, wake, decision, &[], at))
                .collect(),
        };
        for record in records {
            let json = record.to_json();
            assert!(!json.contains(|c: char| c < ' '), "one line: {json:?}");
            let parsed: Value = serde_json::from_str(&json).unwrap();
            schema::hold("outcome", &parsed);
            assert_eq!(parsed["outcome"], record.outcome.as_str());
            let same = |name: &str, wanted: Option<String>| {
                assert_eq!(parsed.get(name).and_then(Value::as_str), wanted.as_deref(), "{name}");
            };
            same("wake_id", Some(record.wake_id.to_string()));
            same("requested_at", Some(record.requested_at.to_string()));
            same("decided_at", Some(record.decided_at.to_string()));
            same("producer", Some(record.producer.as_str().to_owned()));
            same("organization_id", record.organization_id.as_ref().map(ToString::to_string));
            same("task_id", record.task_id.as_ref().map(ToString::to_string));
            same("agent_profile_id", record.agent_profile_id.as_ref().map(ToString::to_string));
            same("idempotency_key", record.idempotency_key.as_ref().map(ToString::to_string));
            same("pause_id", record.pause_id.clone());
            same("fault", record.fault.clone());
            same("traceparent", record.traceparent.as_ref().map(ToString::to_string));
            assert_eq!(parsed["stream_sequence"], record.stream_sequence);
            assert!(parsed.as_object().unwrap().values().all(|value| !value.is_null()));
        }
    }
}

/// Every way to decide, with numbers and texts of the input in it.
fn decisions(number: u64, text: &str) -> Vec<Decision> {
    let run_id = WakeId::from(Uuid::from_u128(u128::from(number) << 7));
    let at = UtcMicros::from_micros(i64::try_from(number % 1_000_000_000).unwrap());
    let count = u32::try_from(number % 101).unwrap();
    vec![
        Decision::Admit { degraded: None },
        Decision::Admit { degraded: Some(Degraded::TaskUnattributed) },
        Decision::Admit { degraded: Some(Degraded::CountReadFailed { error: text.to_owned() }) },
        Decision::Merge { run_id, takes_key: number.is_multiple_of(2) },
        Decision::Deduplicate { kind: DuplicateKind::Windowed, run_id },
        Decision::Deduplicate { kind: DuplicateKind::Durable, run_id },
        Decision::Refuse(Refusal::AgentStopped),
        Decision::Refuse(Refusal::OrganizationPaused { pause_id: text.to_owned() }),
        Decision::Refuse(Refusal::AllowanceExhausted { observed_count: count, retry_at: at }),
    ]
}
