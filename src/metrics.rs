//! What is counted, for Prometheus (contract, "Metrics").
//!
//! Every method takes a value of a closed set, so no identifier can become a label, and every label
//! value is there at 0 from the start: a rate over a counter that has not moved is 0, not absent.
//! Counters are moved once, after settlement, and never for a wake that was decided before.

mod labels;
mod queue;
mod register;

use std::sync::Arc;
use std::time::Duration;

use prometheus::local::LocalHistogram;
use prometheus::{
    Encoder, Gauge, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Registry, TextEncoder,
};

pub use self::labels::{
    AllowanceReason, ClaimAnswer, HoldCause, Overdue, QueueState, RequestAnswer, RunEventLabel,
    Stage, TraceSpan, Violation,
};
use self::register::Registrar;
use crate::admission::{Dimension, DuplicateKind, GateName, Layer, Refusal};
use crate::outcome::OutcomeKind;
use crate::wake::KeylessCause;
use crate::wake::decode::RejectReason;
use crate::wake::producer::ProducerClass;

/// The metrics of one worker. Clones count together; each [`Metrics::new`] counts on its own, so
/// that tests do not see each other's numbers.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Families>);

#[derive(Debug)]
struct Families {
    registry: Registry,
    lanes: u32,
    wakes: IntCounterVec,
    refusals: IntCounterVec,
    would_refuse: IntCounterVec,
    overloads: IntCounterVec,
    rooms_taken: IntCounter,
    rejected: IntCounterVec,
    assignment_allowance: IntCounterVec,
    dedup: IntCounterVec,
    keyless: IntCounterVec,
    contract_violations: IntCounterVec,
    gate_errors: IntCounterVec,
    lane_holds: IntCounterVec,
    batch_seconds: HistogramVec,
    batch_wakes: Histogram,
    wake_latency_seconds: Histogram,
    redeliveries: IntCounter,
    wakes_lost: IntCounter,
    audit_publish_failures: IntCounter,
    trace_spans: IntCounterVec,
    lane_pending: IntGaugeVec,
    lane_oldest_pending_seconds: GaugeVec,
    lane_owned: IntGaugeVec,
    lane_hand_overs: IntCounter,
    replicas: IntGauge,
    queue: queue::QueueFamilies,
}

/// A lane's gauges, as they were set last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LaneSeen {
    /// Whether this worker owns it.
    pub owned: bool,
    /// Messages still to be received or acknowledged.
    pub pending: u64,
    /// How long the oldest of them has been waiting.
    pub oldest_pending_seconds: f64,
}

impl Metrics {
    /// Metrics of a worker on a stream with this many lanes.
    #[must_use]
    pub fn new(lanes: u32) -> Self {
        Self(Arc::new(register::families(Registrar::new(), lanes)))
    }

    /// Events came to this outcome.
    pub fn wakes(&self, outcome: OutcomeKind, producer: ProducerClass, events: u64) {
        self.0.wakes.with_label_values(&[outcome.as_str(), producer.as_str()]).inc_by(events);
    }

    /// A gate declined a wake.
    pub fn refused(&self, refusal: &Refusal) {
        self.0.refusals.with_label_values(&[refusal.as_str()]).inc();
    }

    /// A gate in shadow would have declined a wake.
    pub fn would_refuse(&self, refusal: &Refusal) {
        let labels = [refusal.gate().as_str(), refusal.as_str()];
        self.0.would_refuse.with_label_values(&labels).inc();
    }

    /// Gate 6 declined a wake, for want of this.
    pub fn overloaded(&self, boundary: Dimension, layer: Layer) {
        self.0.overloads.with_label_values(&[boundary.as_str(), layer.as_str()]).inc();
    }

    /// A batch was decided again because others had taken the room that it saw.
    pub fn room_taken(&self) {
        self.0.rooms_taken.inc();
    }

    /// An event was itself at fault.
    pub fn rejected(&self, reason: RejectReason) {
        self.0.rejected.with_label_values(&[reason.as_str()]).inc();
    }

    /// The assignment allowance refused a wake, or could not do its work
    /// (AC-OFFICE-ASSIGN-RATE-003.1). An admitted wake that it did not alter moves none
    /// (AC-OFFICE-ASSIGN-RATE-003.4).
    pub fn allowance_acted(&self, reason: AllowanceReason) {
        self.0.assignment_allowance.with_label_values(&[reason.as_str()]).inc();
    }

    /// A wake's occurrence had been seen before.
    pub fn deduplicated(&self, kind: DuplicateKind) {
        self.0.dedup.with_label_values(&[kind.as_str()]).inc();
    }

    /// A wake carried no key.
    pub fn keyless(&self, cause: KeylessCause) {
        self.0.keyless.with_label_values(&[labels::keyless_cause(cause)]).inc();
    }

    /// A publisher broke the contract in a way that does not reject the event.
    pub fn contract_violation(&self, kind: Violation) {
        self.0.contract_violations.with_label_values(&[kind.as_str()]).inc();
    }

    /// A gate's own read failed. The insert reads nothing of its own: its keys are gate 3's, and
    /// their failure counts there.
    pub fn gate_error(&self, gate: GateName) {
        let gate = if gate == GateName::Insert { GateName::Duplicate } else { gate };
        self.0.gate_errors.with_label_values(&[gate.as_str()]).inc();
    }

    /// A lane began to hold.
    pub fn lane_hold(&self, cause: HoldCause) {
        self.0.lane_holds.with_label_values(&[cause.as_str()]).inc();
    }

    /// A batch went through one stage.
    pub fn batch_stage(&self, stage: Stage, took: Duration) {
        self.0.batch_seconds.with_label_values(&[stage.as_str()]).observe(took.as_secs_f64());
    }

    /// A batch of this many wakes was settled.
    pub fn batch_wakes(&self, wakes: usize) {
        self.0.batch_wakes.observe(f64::from(u32::try_from(wakes).unwrap_or(u32::MAX)));
    }

    /// From the instant at which the stream stored a wake to the one at which its outcome was
    /// durable, in seconds; counted once it is flushed.
    #[must_use]
    pub fn wake_latencies(&self) -> LocalHistogram {
        self.0.wake_latency_seconds.local()
    }

    /// Messages were delivered again.
    pub fn redelivered(&self, messages: u64) {
        self.0.redeliveries.inc_by(messages);
    }

    /// Messages had been removed from the stream before they were decided.
    pub fn wakes_lost(&self, messages: u64) {
        self.0.wakes_lost.inc_by(messages);
    }

    /// The audit stream did not take an event.
    pub fn audit_publish_failed(&self) {
        self.0.audit_publish_failures.inc();
    }

    /// Something became of spans.
    pub fn trace_spans(&self, what: TraceSpan, spans: u64) {
        self.0.trace_spans.with_label_values(&[what.as_str()]).inc_by(spans);
    }

    /// Messages that a lane has still to receive or to acknowledge.
    pub fn set_lane_pending(&self, lane: u32, messages: u64) {
        if let Some(lane) = self.lane(lane) {
            let gauge: IntGauge = self.0.lane_pending.with_label_values(&[&lane]);
            gauge.set(i64::try_from(messages).unwrap_or(i64::MAX));
        }
    }

    /// How long the oldest of them has been waiting.
    pub fn set_lane_oldest_pending(&self, lane: u32, age: Duration) {
        if let Some(lane) = self.lane(lane) {
            let gauge: Gauge = self.0.lane_oldest_pending_seconds.with_label_values(&[&lane]);
            gauge.set(age.as_secs_f64());
        }
    }

    /// Whether this worker owns a lane.
    pub fn set_lane_owned(&self, lane: u32, owned: bool) {
        if let Some(lane) = self.lane(lane) {
            self.0.lane_owned.with_label_values(&[&lane]).set(i64::from(owned));
        }
    }

    /// What is shown of a lane; nothing of one that is not configured.
    #[must_use]
    pub fn lane_seen(&self, lane: u32) -> Option<LaneSeen> {
        let label = self.lane(lane)?;
        let pending = self.0.lane_pending.with_label_values(&[&label]).get();
        Some(LaneSeen {
            owned: self.0.lane_owned.with_label_values(&[&label]).get() != 0,
            pending: u64::try_from(pending).unwrap_or(0),
            oldest_pending_seconds: self
                .0
                .lane_oldest_pending_seconds
                .with_label_values(&[&label])
                .get(),
        })
    }

    /// Whether this worker owns a lane, as it was set last.
    #[must_use]
    pub fn lane_owned(&self, lane: u32) -> bool {
        self.lane(lane).is_some_and(|lane| {
            let gauge: IntGauge = self.0.lane_owned.with_label_values(&[&lane]);
            gauge.get() != 0
        })
    }

    /// A lane of this worker's was given up to another replica.
    pub fn lane_handed_over(&self) {
        self.0.lane_hand_overs.inc();
    }

    /// How many replicas share the lanes, this one included.
    pub fn set_replicas(&self, replicas: usize) {
        self.0.replicas.set(i64::try_from(replicas).unwrap_or(i64::MAX));
    }

    /// The text that Prometheus scrapes.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = Vec::new();
        match TextEncoder::new().encode(&self.0.registry.gather(), &mut text) {
            Ok(()) => String::from_utf8_lossy(&text).into_owned(),
            // Writing to memory does not fail; a scrape that says so is better than none.
            Err(error) => format!("# the metrics could not be written: {error}\n"),
        }
    }

    /// The content type of [`Metrics::render`].
    #[must_use]
    pub const fn content_type() -> &'static str {
        "text/plain; version=0.0.4; charset=utf-8"
    }

    /// A lane's label. A lane that is not configured has none, so that no wrong number can become
    /// a label.
    fn lane(&self, lane: u32) -> Option<String> {
        (lane < self.0.lanes).then(|| lane.to_string())
    }
}
