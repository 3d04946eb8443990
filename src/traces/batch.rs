//! The spans of one batch.

use std::sync::Arc;

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::{Status, status::StatusCode};

use super::context::{Context, SAMPLED, is_in_share, span_id, trace_id};
use super::{Queue, Span};
use crate::admission::Decision;
use crate::clock::Clock;
use crate::lane::process::BatchEnd;
use crate::lane::record::Outcome;
use crate::outcome::OutcomeKind;
use crate::wake::UtcMicros;
use crate::wake::decode::{Content, Event};

/// Links of one batch's span at most; how many are left out is said in it.
pub const LINKS_MAX: usize = 32;
/// Wakes of one batch that have a span of their own at most: who publishes says which are sampled,
/// and does not say what that may cost.
pub const WAKE_SPANS_MAX: usize = 64;

/// The parent is of another process, and that is known (`SpanFlags` of OTLP).
const REMOTE_PARENT: u32 = 0x300;

/// A batch in work. Its spans are queued when it is dropped.
#[derive(Debug)]
pub struct BatchTrace {
    queue: Arc<Queue>,
    trace_id: [u8; 16],
    span_id: [u8; 8],
    /// It has a span whatever its wakes are.
    in_share: bool,
    lane: u32,
    wakes: usize,
    began: UtcMicros,
    ended: UtcMicros,
    links: Vec<Link>,
    links_left_out: u32,
    wake_spans: Vec<Span>,
    wake_spans_left_out: u32,
    outcomes: [i64; OutcomeKind::ALL.len()],
    repeats: i64,
    fault: Option<&'static str>,
}

impl BatchTrace {
    pub(super) fn begin(queue: Arc<Queue>, lane: u32, wakes: usize, now: UtcMicros) -> Self {
        let trace_id = trace_id();
        let in_share = is_in_share(trace_id, queue.sample_ratio);
        Self {
            queue,
            trace_id,
            span_id: span_id(),
            in_share,
            lane,
            wakes,
            began: now,
            ended: now,
            links: Vec::new(),
            links_left_out: 0,
            wake_spans: Vec::new(),
            wake_spans_left_out: 0,
            outcomes: [0; OutcomeKind::ALL.len()],
            repeats: 0,
            fault: None,
        }
    }

    /// An event of it is settled.
    pub(crate) fn settled(&mut self, event: &Event, outcome: &Outcome, clock: &Clock) {
        let (envelope, kind, repeat) = (&event.envelope, outcome.kind, outcome.repeat);
        let now = clock.now();
        self.ended = now;
        self.repeats += i64::from(repeat);
        if let Some(place) = OutcomeKind::ALL.iter().position(|of| *of == kind) {
            self.outcomes[place] += 1;
        }
        let context = envelope.traceparent.as_deref().and_then(Context::of);
        let Some(context) = context else { return };
        if self.links.len() < LINKS_MAX {
            self.links.push(link(context.trace_id, context.span_id, u32::from(context.flags)));
        } else {
            self.links_left_out += 1;
        }
        // What only repeats has had its span when it was decided.
        if !context.is_sampled() || repeat {
            return;
        }
        if self.wake_spans.len() == WAKE_SPANS_MAX {
            self.wake_spans_left_out += 1;
            return;
        }
        let mut attributes = vec![
            text("wakegate.wake_id", envelope.id.to_string()),
            text("wakegate.outcome", kind.as_str()),
            text("messaging.system", "nats"),
            text("messaging.destination.name", &*envelope.stream),
            whole("wakegate.stream_sequence", i64::try_from(envelope.sequence).unwrap_or(i64::MAX)),
        ];
        attributes.extend(reason(event, outcome).map(|reason| text("wakegate.reason", reason)));
        let stored_at = u64::try_from(envelope.stored_at_nanos).unwrap_or(0);
        self.wake_spans.push(Span {
            trace_id: context.trace_id.to_vec(),
            span_id: span_id().to_vec(),
            parent_span_id: context.span_id.to_vec(),
            trace_state: envelope.tracestate.as_deref().unwrap_or_default().to_owned(),
            flags: REMOTE_PARENT | u32::from(context.flags),
            name: "wakegate.wake".to_owned(),
            kind: SpanKind::Consumer.into(),
            // The stream's clock and the worker's may differ; time does not run backwards in a span.
            start_time_unix_nano: stored_at.min(nanos(now)),
            end_time_unix_nano: nanos(now),
            attributes,
            links: vec![link(self.trace_id, self.span_id, u32::from(SAMPLED))],
            ..Span::default()
        });
    }

    /// All of it is settled, or what is left is another worker's.
    pub(crate) fn ended(&mut self, end: BatchEnd, clock: &Clock) {
        self.fault = match end {
            BatchEnd::Settled { .. } => return,
            BatchEnd::LaneLost => Some("another worker owns the lane"),
            BatchEnd::StoreAway => Some("the database stayed away"),
        };
        self.ended = clock.now();
    }

    fn span(&mut self) -> Span {
        let mut attributes = vec![
            text("messaging.system", "nats"),
            text("messaging.operation.type", "process"),
            whole("messaging.batch.message_count", i64::try_from(self.wakes).unwrap_or(i64::MAX)),
            whole("wakegate.lane", i64::from(self.lane)),
        ];
        let outcomes = OutcomeKind::ALL.iter().zip(self.outcomes).filter(|(_, wakes)| *wakes > 0);
        attributes
            .extend(outcomes.map(|(kind, wakes)| {
                whole(&format!("wakegate.outcomes.{}", kind.as_str()), wakes)
            }));
        if self.repeats > 0 {
            attributes.push(whole("wakegate.repeats", self.repeats));
        }
        if self.wake_spans_left_out > 0 {
            let left_out = i64::from(self.wake_spans_left_out);
            attributes.push(whole("wakegate.wake_spans_left_out", left_out));
        }
        Span {
            trace_id: self.trace_id.to_vec(),
            span_id: self.span_id.to_vec(),
            flags: u32::from(SAMPLED),
            name: "wakegate.batch".to_owned(),
            kind: SpanKind::Consumer.into(),
            start_time_unix_nano: nanos(self.began),
            end_time_unix_nano: nanos(self.ended.max(self.began)),
            attributes,
            links: std::mem::take(&mut self.links),
            dropped_links_count: self.links_left_out,
            status: self
                .fault
                .map(|fault| Status { message: fault.to_owned(), code: StatusCode::Error.into() }),
            ..Span::default()
        }
    }
}

impl Drop for BatchTrace {
    fn drop(&mut self) {
        if !self.in_share && self.wake_spans.is_empty() {
            return;
        }
        let span = self.span();
        self.queue.put(span);
        for span in self.wake_spans.drain(..) {
            self.queue.put(span);
        }
    }
}

/// Why it was refused, rejected, or taken for a duplicate.
fn reason(event: &Event, outcome: &Outcome) -> Option<&'static str> {
    match (&event.content, &outcome.decision) {
        (Content::Rejected(rejection), _) => Some(rejection.reason.as_str()),
        (_, Some(Decision::Refuse(refusal))) => Some(refusal.as_str()),
        (_, Some(Decision::Deduplicate { kind, .. })) => Some(kind.as_str()),
        (_, Some(Decision::Admit { degraded: Some(degraded) })) => Some(degraded.reason().as_str()),
        _ => None,
    }
}

fn link(trace_id: [u8; 16], span_id: [u8; 8], flags: u32) -> Link {
    Link { trace_id: trace_id.to_vec(), span_id: span_id.to_vec(), flags, ..Link::default() }
}

fn nanos(at: UtcMicros) -> u64 {
    u64::try_from(at.micros()).unwrap_or(0).saturating_mul(1_000)
}

pub(super) fn text(key: &str, value: impl Into<String>) -> KeyValue {
    of(key, Value::StringValue(value.into()))
}

fn whole(key: &str, value: i64) -> KeyValue {
    of(key, Value::IntValue(value))
}

fn of(key: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}
