//! Traces: one span a batch, linked to the contexts of its wakes, and one a wake whose context says
//! that it is sampled; exported over OTLP where a collector is configured.
//!
//! Admission never waits for a trace: a span that finds the queue full is dropped and counted. With
//! no collector configured there is no tracer, and nothing is looked at.

mod batch;
mod collector;
mod context;
mod export;
mod http;

use std::sync::Arc;

use tokio::sync::mpsc;

pub use self::batch::{BatchTrace, LINKS_MAX, WAKE_SPANS_MAX};
pub use self::collector::{Endpoint, TraceHeaders};
pub use self::export::{Exporter, ExporterOptions};
use crate::clock::Clock;
use crate::metrics::{Metrics, TraceSpan};

/// A span as OTLP has it.
pub type Span = opentelemetry_proto::tonic::trace::v1::Span;

/// Makes spans, or does not. Clones share the queue.
#[derive(Debug, Clone, Default)]
pub struct Tracer(Option<Arc<Queue>>);

#[derive(Debug)]
struct Queue {
    spans: mpsc::Sender<Span>,
    sample_ratio: f64,
    metrics: Metrics,
}

impl Tracer {
    /// One that makes nothing.
    #[must_use]
    pub fn off() -> Self {
        Self::default()
    }

    /// One that puts spans into a queue of this length, and the queue's other end.
    ///
    /// `sample_ratio` is the share of batches with a span though none of their wakes is sampled.
    #[must_use]
    pub fn with_queue(
        queue_spans_max: usize,
        sample_ratio: f64,
        metrics: Metrics,
    ) -> (Self, mpsc::Receiver<Span>) {
        let (spans, queue) = mpsc::channel(queue_spans_max);
        (Self(Some(Arc::new(Queue { spans, sample_ratio, metrics }))), queue)
    }

    /// The trace of a batch that begins now.
    #[must_use]
    pub fn batch(&self, lane: u32, wakes: usize, clock: &Clock) -> Option<BatchTrace> {
        let queue = self.0.as_ref()?;
        Some(BatchTrace::begin(Arc::clone(queue), lane, wakes, clock.now()))
    }
}

impl Queue {
    /// Never waits.
    fn put(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.metrics.trace_spans(TraceSpan::QueueFull, 1);
        }
    }
}
