//! Decoding: whatever body, subject and headers, there is an answer, the same each time, and it is
//! safe to pass on.

use serde_json::Value;
use wakegate::wake::decode::{BODY_BYTES_MAX, Content, Event, Message, RejectReason, decode};
use wakegate::wake::token::token;

use crate::harness::schema;
use crate::messages::message_on;

/// See the module.
pub fn target(bytes: &[u8]) {
    for message in messages(bytes) {
        let event = decode(&message);
        assert_eq!(format!("{event:?}"), format!("{:?}", decode(&message)), "the same each time");
        assert_harmless(&message, &event);
        assert_described(&message, &event);
    }
}

/// What is taken is as the schema of its type says: a publisher that keeps to it is understood, and
/// one that is understood keeps to it.
fn assert_described(message: &Message, event: &Event) {
    let schema = match &event.content {
        Content::Rejected(_) => return,
        Content::NoWake(_) => "event-task-mutated-v1",
        Content::Wake(_) => match serde_json::from_slice::<Value>(&message.body) {
            Ok(body) if body["type"] == "task.mutated.v1" => "event-task-mutated-v1",
            _ => "event-wake-requested-v1",
        },
    };
    // Payloads are kept as written: a number or a depth that this parser refuses may be in one.
    if let Ok(body) = serde_json::from_slice(&message.body) {
        schema::hold(schema, &body);
    }
}

/// A message with these bytes as body, where they say they belong and elsewhere, and one with them as
/// subject and headers.
pub fn messages(bytes: &[u8]) -> Vec<Message> {
    let body = || bytes::Bytes::copy_from_slice(bytes);
    let tree = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let organization = text(&tree["organization_id"]);
    let task = match &tree["type"] {
        kind if kind == "task.mutated.v1" => text(&tree["task_id"]),
        _ => match &tree["payload"] {
            Value::String(inner) => {
                text(&serde_json::from_str::<Value>(inner).unwrap_or_default()["task_id"])
            }
            payload => text(&payload["task_id"]),
        },
    };
    let at_home = format!("wakes.3.task_mutation.{}.{}", token(&organization), token(&task));
    let wild = String::from_utf8_lossy(bytes);
    let mut headed = message_on(&wild, r#"{"type":"task.mutated.v1","task_id":"t"}"#);
    headed.traceparent = Some(wild.as_ref().into());
    headed.outcome_to = Some(format!("_INBOX.{wild}").into());
    vec![
        message_on(&at_home, body()),
        message_on("wakes.3.task_mutation.-.-", body()),
        message_on("wakes.0.onboarding.acme.t", body()),
        headed,
    ]
}

fn assert_harmless(message: &Message, event: &Event) {
    let envelope = &event.envelope;
    let organization = &envelope.organization_token;
    assert!((1..=64).contains(&organization.len()), "{organization}");
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-=".contains(&b);
    assert!(organization.bytes().all(plain), "{organization}");
    assert!(envelope.producer.as_str().len() <= 256);
    if let Some(subject) = &envelope.outcome_to {
        assert!(
            subject.len() <= 256 && !subject.contains(['*', '>', ' ', '\r', '\n', '\0']) || {
                // A star or an angle within a token is no wildcard.
                subject.split('.').all(|token| !matches!(token, "" | "*" | ">"))
            }
        );
    }
    if let Some(traceparent) = &envelope.traceparent {
        assert!(traceparent.len() <= 256 && traceparent.bytes().all(|b| b.is_ascii_graphic()));
    }
    let is_large = message.body.len() > BODY_BYTES_MAX;
    match &event.content {
        Content::Rejected(rejection) => {
            assert!(!rejection.fault.is_empty() && rejection.fault.len() <= 4_096);
            assert!(!rejection.fault.contains(char::is_control), "{:?}", rejection.fault);
            assert_eq!(rejection.body, message.body);
            assert_eq!(rejection.reason == RejectReason::TooLarge, is_large);
            let no_text = std::str::from_utf8(&message.body).is_err();
            assert_eq!(rejection.reason == RejectReason::NotUtf8, no_text && !is_large);
        }
        Content::Wake(wake) => {
            assert!(!is_large && !wake.payload.text().contains('\0'));
            let task = wake.payload.task().task().map_or("", |task| task.as_str());
            let organization = token(wake.organization_id.as_str());
            assert!(message.subject.ends_with(&format!(".{organization}.{}", token(task))));
            assert!(wake.agent_profile_id.as_str().len() <= 256);
            assert!(!wake.agent_profile_id.as_str().contains('\0'));
            assert!(wake.occurrence.key().is_none_or(|key| key.as_str().len() <= 1_571));
        }
        Content::NoWake(no_wake) => {
            assert!(!is_large);
            assert!(message.subject.ends_with(&format!(".{}", token(no_wake.task_id.as_str()))));
        }
    }
}
