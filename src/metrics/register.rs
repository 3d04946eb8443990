//! Names, help texts, buckets and the label values that are there from the start.

use prometheus::core::Collector;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};

use super::Families;
use super::labels::{
    AllowanceReason, HoldCause, KEYLESS_CAUSES, Stage, TraceSpan, Violation, keyless_cause,
};
use crate::admission::gates::capacity::BOUNDARIES;
use crate::admission::{DuplicateKind, GateName, Layer, Refusal};
use crate::outcome::OutcomeKind;
use crate::wake::decode::RejectReason;
use crate::wake::producer::ProducerClass;

/// From half a millisecond, which a stage over one wake takes, to the longest deadline of a write.
const STAGE_SECONDS: [f64; 13] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];
/// From one round trip at low load to a backlog of an hour.
const LATENCY_SECONDS: [f64; 15] =
    [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 300.0, 900.0, 3600.0];
/// Up to the largest `lanes.batch_wakes_max`.
const BATCH_WAKES: [f64; 12] =
    [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 1500.0, 2000.0];

/// Registers every family of the contract.
pub(super) fn families(to: Registrar, lanes: u32) -> Families {
    let lane_labels: Vec<String> = (0..lanes).map(|lane| lane.to_string()).collect();
    let lane_labels: Vec<&str> = lane_labels.iter().map(String::as_str).collect();
    to.build_info();
    Families {
        lanes,
        wakes: to.wakes(),
        refusals: to.counters(
            "wakegate_refusals_total",
            "Wakes that a gate declined, by reason.",
            "reason",
            Refusal::REASONS,
        ),
        would_refuse: to.would_refuse(),
        overloads: to.overloads(),
        rooms_taken: to.counter(
            "wakegate_rooms_taken_total",
            "Batches that were decided again because others had taken the room that they saw.",
        ),
        rejected: to.counters(
            "wakegate_rejected_total",
            "Events that were no wake at all, by what was at fault.",
            "reason",
            RejectReason::ALL.map(RejectReason::as_str),
        ),
        assignment_allowance: to.counters(
            "wakegate_assignment_allowance_total",
            "Wakes that the assignment allowance refused, or admitted without being able to do its work.",
            "reason",
            AllowanceReason::ALL.iter().map(|reason| reason.as_str()),
        ),
        dedup: to.counters(
            "wakegate_dedup_total",
            "Wakes whose occurrence was seen before: within 24 hours (windowed), or at any age (durable).",
            "kind",
            [DuplicateKind::Windowed, DuplicateKind::Durable].map(DuplicateKind::as_str),
        ),
        keyless: to.counters(
            "wakegate_keyless_total",
            "Wakes without an idempotency key, by cause.",
            "cause",
            KEYLESS_CAUSES.map(keyless_cause),
        ),
        contract_violations: to.counters(
            "wakegate_contract_violations_total",
            "Breaches of the contract by publishers that did not reject the event.",
            "kind",
            Violation::ALL.iter().map(|kind| kind.as_str()),
        ),
        gate_errors: to.counters(
            "wakegate_gate_errors_total",
            "Failed reads of a gate, by gate.",
            "gate",
            GateName::READING.map(GateName::as_str),
        ),
        lane_holds: to.counters(
            "wakegate_lane_holds_total",
            "Times a lane began to hold its messages, by what it waited for.",
            "cause",
            HoldCause::ALL.iter().map(|cause| cause.as_str()),
        ),
        batch_seconds: to.stages(),
        batch_wakes: to.histogram("wakegate_batch_wakes", "Wakes in one batch.", &BATCH_WAKES),
        wake_latency_seconds: to.histogram(
            "wakegate_wake_latency_seconds",
            "Seconds from a wake being stored on the stream to its outcome being durable.",
            &LATENCY_SECONDS,
        ),
        redeliveries: to.counter(
            "wakegate_redeliveries_total",
            "Messages that were delivered again.",
        ),
        wakes_lost: to.counter(
            "wakegate_wakes_lost_total",
            "Messages that were removed from the stream before they were decided.",
        ),
        audit_publish_failures: to.counter(
            "wakegate_audit_publish_failures_total",
            "Audit events that the audit stream did not take at an attempt.",
        ),
        trace_spans: to.trace_spans(),
        lane_pending: to.lane_gauges(
            "wakegate_lane_pending",
            "Messages of a lane that are not yet delivered or not yet acknowledged.",
            &lane_labels,
        ),
        lane_oldest_pending_seconds: to.lane_seconds(&lane_labels),
        lane_owned: to.lane_gauges(
            "wakegate_lane_owned",
            "1 where this worker owns the lane, else 0.",
            &lane_labels,
        ),
        lane_hand_overs: to.counter(
            "wakegate_lane_hand_overs_total",
            "Lanes of this worker that it gave up so that another replica has its share.",
        ),
        replicas: to.replicas(),
        queue: super::queue::families(&to),
        registry: to.0,
    }
}

/// Registers families with their label values, in a registry of its own.
pub(super) struct Registrar(Registry);

impl Registrar {
    pub(super) fn new() -> Self {
        Self(Registry::new())
    }

    fn add<C: Collector + Clone + 'static>(&self, made: prometheus::Result<C>) -> C {
        let family = made.expect("names and labels are constants of this file, and valid");
        self.0.register(Box::new(family.clone())).expect("each name of this file is there once");
        family
    }

    fn wakes(&self) -> IntCounterVec {
        let family = self.add(IntCounterVec::new(
            Opts::new("wakegate_wakes_total", "Events that came to an outcome, by producer."),
            &["outcome", "producer"],
        ));
        for outcome in OutcomeKind::ALL {
            for producer in ProducerClass::ALL {
                let _ = family.with_label_values(&[outcome.as_str(), producer.as_str()]);
            }
        }
        family
    }

    fn trace_spans(&self) -> IntCounterVec {
        self.counters(
            "wakegate_trace_spans_total",
            "Spans of traces, by what became of them.",
            "result",
            TraceSpan::ALL.iter().map(|result| result.as_str()),
        )
    }

    fn would_refuse(&self) -> IntCounterVec {
        let family = self.add(IntCounterVec::new(
            Opts::new(
                "wakegate_would_refuse_total",
                "Wakes that a gate in shadow would have declined and let through, by gate and reason.",
            ),
            &["gate", "reason"],
        ));
        for (gate, reasons) in Refusal::BY_GATE {
            for reason in reasons {
                let _ = family.with_label_values(&[gate.as_str(), reason]);
            }
        }
        family
    }

    fn overloads(&self) -> IntCounterVec {
        let family = self.add(IntCounterVec::new(
            Opts::new(
                "wakegate_overloads_total",
                "Wakes refused for want of room, by what was full and by whose limit.",
            ),
            &["boundary", "layer"],
        ));
        for boundary in BOUNDARIES {
            for layer in Layer::ALL {
                if layer == Layer::Platform || boundary.is_of_organizations() {
                    let _ = family.with_label_values(&[boundary.as_str(), layer.as_str()]);
                }
            }
        }
        family
    }

    pub(super) fn counters(
        &self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = &'static str>,
    ) -> IntCounterVec {
        let family = self.add(IntCounterVec::new(Opts::new(name, help), &[label]));
        for value in values {
            let _ = family.with_label_values(&[value]);
        }
        family
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.add(IntCounter::new(name, help))
    }

    pub(super) fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> Histogram {
        self.add(Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec())))
    }

    /// Counters by two labels.
    pub(super) fn pairs(
        &self,
        name: &str,
        help: &str,
        (first, values): (&str, impl IntoIterator<Item = &'static str>),
        (second, others): (&str, impl IntoIterator<Item = &'static str>),
    ) -> IntCounterVec {
        let family = self.add(IntCounterVec::new(Opts::new(name, help), &[first, second]));
        let others: Vec<&str> = others.into_iter().collect();
        for value in values {
            for other in &others {
                let _ = family.with_label_values(&[value, *other]);
            }
        }
        family
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.add(IntGauge::new(name, help))
    }

    pub(super) fn gauges(
        &self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = &'static str>,
    ) -> IntGaugeVec {
        let family = self.add(IntGaugeVec::new(Opts::new(name, help), &[label]));
        for value in values {
            let _: IntGauge = family.with_label_values(&[value]);
        }
        family
    }

    pub(super) fn seconds(&self, name: &str, help: &str) -> Gauge {
        self.add(Gauge::new(name, help))
    }

    fn stages(&self) -> HistogramVec {
        let family = self.add(HistogramVec::new(
            HistogramOpts::new("wakegate_batch_seconds", "Seconds that a batch spent in a stage.")
                .buckets(STAGE_SECONDS.to_vec()),
            &["stage"],
        ));
        for stage in Stage::ALL {
            let _ = family.with_label_values(&[stage.as_str()]);
        }
        family
    }

    fn lane_gauges(&self, name: &str, help: &str, lanes: &[&str]) -> IntGaugeVec {
        let family = self.add(IntGaugeVec::new(Opts::new(name, help), &["lane"]));
        for lane in lanes {
            let _ = family.with_label_values(&[lane]);
        }
        family
    }

    fn lane_seconds(&self, lanes: &[&str]) -> GaugeVec {
        let family = self.add(GaugeVec::new(
            Opts::new(
                "wakegate_lane_oldest_pending_seconds",
                "Age in seconds of a lane's oldest message that is not yet acknowledged.",
            ),
            &["lane"],
        ));
        for lane in lanes {
            let _ = family.with_label_values(&[lane]);
        }
        family
    }

    /// One, until another is heard.
    fn replicas(&self) -> IntGauge {
        let family = self.add(IntGauge::new(
            "wakegate_replicas",
            "Replicas that share the lanes as this one hears them, itself included.",
        ));
        family.set(1);
        family
    }

    fn build_info(&self) {
        let family = self.add(IntGaugeVec::new(
            Opts::new("wakegate_build_info", "Always 1; the version of the program as a label."),
            &["version"],
        ));
        let gauge: IntGauge = family.with_label_values(&[env!("CARGO_PKG_VERSION")]);
        gauge.set(1);
    }
}
