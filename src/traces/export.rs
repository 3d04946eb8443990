//! Takes spans from the queue and sends them, beside the work and never in its way.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::batch::text;
use super::collector::{Endpoint, TraceHeaders};
use super::http::Client;
use super::{Span, Tracer};
use crate::metrics::{Metrics, TraceSpan};

/// Spans of one request at most.
const REQUEST_SPANS_MAX: usize = 512;
/// How long the first span of a request waits for more.
const GATHER: Duration = Duration::from_millis(500);

/// How spans are exported.
#[derive(Debug, Clone)]
pub struct ExporterOptions {
    /// Where to.
    pub endpoint: Endpoint,
    /// With which headers.
    pub headers: TraceHeaders,
    /// How long one request may take.
    pub timeout: Duration,
    /// Spans that may wait; beyond that they are dropped and counted.
    pub queue_spans_max: usize,
    /// Share of batches that have a span though none of their wakes is sampled.
    pub sample_ratio: f64,
    /// Which worker this is.
    pub instance: String,
}

/// The task that exports.
#[derive(Debug, Default)]
pub struct Exporter {
    task: JoinSet<()>,
    ending: CancellationToken,
}

struct Sender {
    client: Client,
    resource: Resource,
    metrics: Metrics,
    /// The last request failed: said once, until one succeeds.
    failing: bool,
}

impl Exporter {
    /// Begins to export what the tracer queues.
    #[must_use]
    pub fn start(options: ExporterOptions, metrics: &Metrics) -> (Tracer, Self) {
        let (tracer, queue) =
            Tracer::with_queue(options.queue_spans_max, options.sample_ratio, metrics.clone());
        tracing::info!(endpoint = %options.endpoint, "exporting traces");
        let attributes = vec![
            text("service.name", "wakegate"),
            text("service.version", env!("CARGO_PKG_VERSION")),
            text("service.instance.id", options.instance),
        ];
        let sender = Sender {
            client: Client::new(options.endpoint, options.headers, options.timeout),
            resource: Resource { attributes, ..Resource::default() },
            metrics: metrics.clone(),
            failing: false,
        };
        let ending = CancellationToken::new();
        let mut task = JoinSet::new();
        task.spawn(run(queue, sender, ending.clone()));
        (tracer, Self { task, ending })
    }

    /// Takes nothing more in, and sends what is queued until the deadline.
    pub async fn end(mut self, deadline: Instant) {
        self.ending.cancel();
        if tokio::time::timeout_at(deadline, self.task.join_next()).await.is_err() {
            tracing::warn!("the deadline of the shutdown is over: traces not exported are dropped");
        }
    }
}

async fn run(mut queue: mpsc::Receiver<Span>, mut sender: Sender, ending: CancellationToken) {
    loop {
        let mut spans = Vec::new();
        tokio::select! {
            biased;
            received = queue.recv_many(&mut spans, REQUEST_SPANS_MAX) => if received == 0 {
                return;
            },
            () = ending.cancelled(), if !queue.is_closed() => {
                queue.close();
                continue;
            }
        }
        let gathered = tokio::time::sleep(GATHER);
        let mut gathered = std::pin::pin!(gathered);
        while spans.len() < REQUEST_SPANS_MAX {
            let room = REQUEST_SPANS_MAX - spans.len();
            tokio::select! {
                biased;
                received = queue.recv_many(&mut spans, room) => if received == 0 { break },
                () = ending.cancelled() => {
                    queue.close();
                }
                () = &mut gathered => break,
            }
        }
        sender.send(spans).await;
    }
}

impl Sender {
    /// A request that fails is not repeated: meanwhile others wait, and a span is no record.
    async fn send(&mut self, spans: Vec<Span>) {
        let count = spans.len() as u64;
        let scope = InstrumentationScope {
            name: "wakegate".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }];
        let request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans,
                ..ResourceSpans::default()
            }],
        };
        match self.client.send(request.encode_to_vec()).await {
            Ok(answer) => {
                let rejected = rejected(&answer).min(count);
                self.metrics.trace_spans(TraceSpan::Exported, count - rejected);
                self.metrics.trace_spans(TraceSpan::Rejected, rejected);
                if std::mem::take(&mut self.failing) {
                    tracing::info!("the collector takes traces again");
                }
            }
            Err(error) => {
                self.metrics.trace_spans(TraceSpan::Failed, count);
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(%error, "traces cannot be exported and are dropped");
                }
            }
        }
    }
}

/// Spans that the collector did not take though it answered well; an answer that is none says
/// nothing.
fn rejected(answer: &[u8]) -> u64 {
    let answer = ExportTraceServiceResponse::decode(answer).unwrap_or_default();
    let rejected = answer.partial_success.map_or(0, |partial| partial.rejected_spans);
    u64::try_from(rejected).unwrap_or(0)
}
