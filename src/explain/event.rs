//! An event that is not on the stream, as the stream would deliver it.

use std::sync::Arc;

use bytes::Bytes;

use crate::wake::UtcMicros;
use crate::wake::decode::Message;

/// Beyond every sequence that a lane has decided.
const SEQUENCE: u64 = u64::MAX;
/// The stream's name is part of a wake's id, and no more than that is read of it here.
const STREAM: &str = "WAKES";

/// The message that the stream would make of a body published on `subject`, which is
/// `wakes.<producer>.<organization>.<task>`, if it stored it at `at`.
///
/// Its sequence, its id and its partition are not known before it is stored; no gate looks at the
/// partition, and gate 0 finds nothing recorded of a message that is not there.
#[must_use]
pub fn message(subject: &str, body: &str, at: UtcMicros) -> Message {
    let stored = match subject.split_once('.') {
        Some((root, rest)) => format!("{root}.0.{rest}"),
        None => subject.to_owned(),
    };
    Message {
        stream: Arc::from(STREAM),
        sequence: SEQUENCE,
        stored_at_nanos: i128::from(at.micros()) * 1_000,
        requested_at: at,
        subject: Arc::from(stored),
        body: Bytes::from(body.to_owned()),
        traceparent: None,
        tracestate: None,
        outcome_to: None,
    }
}
