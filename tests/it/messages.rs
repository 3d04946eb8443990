//! Messages as the intake stream delivers them, for tests that decode without a server.

use std::sync::Arc;

use bytes::Bytes;
use wakegate::wake::UtcMicros;
use wakegate::wake::decode::Message;
use wakegate::wake::token::token;

/// When the stream stored every message of [`message`], in nanoseconds.
pub(crate) const STORED_AT_NANOS: i128 = 1_790_000_000_123_456_789;

/// A message from `task_mutation`, on the subject that organization and task have.
pub(crate) fn message(organization: &str, task: &str, body: impl Into<Bytes>) -> Message {
    let subject = format!("wakes.3.task_mutation.{}.{}", token(organization), token(task));
    message_on(&subject, body)
}

/// A message on any subject.
pub(crate) fn message_on(subject: &str, body: impl Into<Bytes>) -> Message {
    Message {
        stream: Arc::from("WAKES"),
        sequence: 7,
        stored_at_nanos: STORED_AT_NANOS,
        requested_at: UtcMicros::from_nanos(STORED_AT_NANOS),
        subject: Arc::from(subject),
        body: body.into(),
        traceparent: None,
        tracestate: None,
        outcome_to: None,
    }
}

/// A JSON object of members whose values are given as raw JSON; `None` leaves a member out.
pub(crate) fn object(members: &[(&str, Option<&str>)]) -> String {
    let members: Vec<String> = members
        .iter()
        .filter_map(|(name, raw)| raw.map(|raw| format!("\"{name}\":{raw}")))
        .collect();
    format!("{{{}}}", members.join(","))
}

/// A text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
