//! What the record of a wake says that was refused for want of room.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::admission::decision::{Overload, Retry};
use crate::wake::UtcMicros;
use crate::wake::decode::Envelope;

/// What was full where a wake was refused for want of room (seed 004).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OverloadRecord {
    /// Which limit: see docs/limits.md.
    pub boundary: &'static str,
    /// Which worker saw it; absent where nobody decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub component: Option<Arc<str>>,
    /// Why, in a word.
    pub reason: &'static str,
    /// How much was there.
    pub depth: u64,
    /// How much may be there.
    pub capacity: u32,
    /// What is done with what does not fit: always `reject`.
    pub policy: &'static str,
    /// Which layer bound it: `platform` or `organization`.
    pub layer: &'static str,
    /// After how many seconds the wake would fit, where something justifies to say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32")]
    pub retry_after_seconds: Option<u32>,
    /// The trace id of `traceparent`, else the wake's id.
    pub correlation_id: String,
    /// When it was seen, by the worker's clock.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: UtcMicros,
}

impl OverloadRecord {
    pub(super) fn of(overload: &Overload, envelope: &Envelope, at: UtcMicros) -> Self {
        // `traceparent` has been checked for form: version, trace id, parent, flags.
        let trace_id = envelope.traceparent.as_deref().and_then(|trace| trace.split('-').nth(1));
        Self {
            boundary: overload.boundary.as_str(),
            component: None,
            reason: overload.reason(),
            depth: overload.depth,
            capacity: overload.capacity,
            policy: "reject",
            layer: overload.layer.as_str(),
            retry_after_seconds: overload.retry.map(|retry| seconds_until(retry, at)),
            correlation_id: trace_id.map_or_else(|| envelope.id.to_string(), str::to_owned),
            at,
        }
    }
}

/// Whole seconds, at least one.
fn seconds_until(retry: Retry, now: UtcMicros) -> u32 {
    match retry {
        Retry::At(at) => {
            u32::try_from(at.since(now).as_micros().div_ceil(1_000_000)).unwrap_or(u32::MAX).max(1)
        }
        Retry::After { seconds } => seconds,
    }
}
