//! Exports traces beside the work, where a collector is configured.

use tokio::time::Instant;

use super::Surroundings;
use crate::config::Config;
use crate::control::worker::host;
use crate::traces::{Exporter, ExporterOptions, Tracer};

/// Begins to export, or does nothing.
pub(super) fn start(config: &Config, surroundings: &Surroundings) -> (Tracer, Option<Exporter>) {
    let of = &config.traces;
    let Some(endpoint) = of.endpoint.clone() else { return (Tracer::off(), None) };
    let options = ExporterOptions {
        endpoint,
        headers: of.headers.clone(),
        timeout: of.timeout,
        queue_spans_max: of.queue_spans_max,
        sample_ratio: of.sample_ratio,
        instance: format!("{}-{}", host(), std::process::id()),
    };
    let (tracer, exporter) = Exporter::start(options, &surroundings.metrics);
    (tracer, Some(exporter))
}

/// Works, and then sends what is queued within what is left of the shutdown's deadline.
pub(super) async fn flushed<T>(
    exporter: Option<Exporter>,
    config: &Config,
    surroundings: &Surroundings,
    work: impl Future<Output = T>,
) -> T {
    let mut work = std::pin::pin!(work);
    let (worked, asked_at) = tokio::select! {
        biased;
        worked = &mut work => (worked, Instant::now()),
        () = surroundings.shutdown.requested() => {
            let asked_at = Instant::now();
            (work.await, asked_at)
        }
    };
    if let Some(exporter) = exporter {
        exporter.end(asked_at + config.shutdown.deadline).await;
    }
    worked
}
