//! What is counted of the queue's other half: claims, what is overdue, and what is told of runs.

use std::time::Duration;

use prometheus::{Gauge, Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::Metrics;
use super::labels::{ClaimAnswer, Overdue, QueueState, RequestAnswer, RunEventLabel};
use super::register::Registrar;
use crate::queue::Verb;

/// One transaction of claims, and nothing else.
const CLAIM_SECONDS: [f64; 12] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];

/// The families of the queue.
#[derive(Debug)]
pub(super) struct QueueFamilies {
    claims: IntCounterVec,
    claims_waiting: IntGauge,
    claim_seconds: Histogram,
    runs_claimed: IntCounter,
    requests: IntCounterVec,
    overdue: IntCounterVec,
    runs: IntGaugeVec,
    events: IntCounterVec,
    events_failed: IntCounter,
    events_oldest_seconds: Gauge,
}

/// Registers them.
pub(super) fn families(to: &Registrar) -> QueueFamilies {
    QueueFamilies {
        claims: to.counters(
            "wakegate_claims_total",
            "Claims of runners that were answered, by what they were answered with.",
            "answer",
            ClaimAnswer::ALL.iter().map(|answer| answer.as_str()),
        ),
        claims_waiting: to.gauge("wakegate_claims_waiting", "Claims that wait for work."),
        claim_seconds: to.histogram(
            "wakegate_claim_seconds",
            "Seconds that one transaction of claims took.",
            &CLAIM_SECONDS,
        ),
        runs_claimed: to.counter("wakegate_runs_claimed_total", "Runs that were given to runners."),
        requests: to.pairs(
            "wakegate_run_requests_total",
            "Requests about runs that were answered, claims not counted.",
            ("verb", Verb::ALL.iter().filter(|verb| **verb != Verb::Claim).map(|v| v.as_str())),
            ("answer", RequestAnswer::ALL.iter().map(|answer| answer.as_str())),
        ),
        overdue: to.counters(
            "wakegate_runs_overdue_total",
            "Runs that were ended or put back because something was over, by what.",
            "what",
            Overdue::ALL.iter().map(|what| what.as_str()),
        ),
        runs: to.gauges(
            "wakegate_queue_runs",
            "Runs of the whole platform that are queued, or claimed or running.",
            "state",
            QueueState::ALL.iter().map(|state| state.as_str()),
        ),
        events: to.counters(
            "wakegate_run_events_total",
            "Events of runs that the stream has taken, by event.",
            "event",
            RunEventLabel::ALL.iter().map(|event| event.as_str()),
        ),
        events_failed: to.counter(
            "wakegate_run_event_publish_failures_total",
            "Events of runs that the stream did not take at an attempt.",
        ),
        events_oldest_seconds: to.seconds(
            "wakegate_run_events_unpublished_seconds",
            "Age in seconds of the oldest event of a run that is not yet published.",
        ),
    }
}

impl Metrics {
    /// A claim was answered.
    pub fn claimed(&self, answer: ClaimAnswer, runs: usize) {
        self.0.queue.claims.with_label_values(&[answer.as_str()]).inc();
        self.0.queue.runs_claimed.inc_by(runs as u64);
    }

    /// How many claims wait.
    pub fn set_claims_waiting(&self, claims: usize) {
        self.0.queue.claims_waiting.set(i64::try_from(claims).unwrap_or(i64::MAX));
    }

    /// One transaction of claims.
    pub fn claims_took(&self, took: Duration) {
        self.0.queue.claim_seconds.observe(took.as_secs_f64());
    }

    /// A request about a run was answered.
    pub fn run_requested(&self, verb: Verb, answer: RequestAnswer) {
        if verb != Verb::Claim {
            self.0.queue.requests.with_label_values(&[verb.as_str(), answer.as_str()]).inc();
        }
    }

    /// Runs were ended or put back.
    pub fn overdue(&self, what: Overdue, runs: u64) {
        self.0.queue.overdue.with_label_values(&[what.as_str()]).inc_by(runs);
    }

    /// How much there is in the queue.
    pub fn set_queue_runs(&self, state: QueueState, runs: u64) {
        let gauge: IntGauge = self.0.queue.runs.with_label_values(&[state.as_str()]);
        gauge.set(i64::try_from(runs).unwrap_or(i64::MAX));
    }

    /// The stream has taken an event.
    pub fn run_event_published(&self, event: RunEventLabel) {
        self.0.queue.events.with_label_values(&[event.as_str()]).inc();
    }

    /// The stream has not taken an event.
    pub fn run_event_failed(&self) {
        self.0.queue.events_failed.inc();
    }

    /// How long the oldest event has been waiting.
    pub fn set_run_events_oldest(&self, age: Duration) {
        self.0.queue.events_oldest_seconds.set(age.as_secs_f64());
    }
}
