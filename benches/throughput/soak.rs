//! Whether memory stays flat: events without end, slice by slice, through one worker.

use std::time::Duration;

use serde::Serialize;

use crate::database::Dialect;
use crate::measure::Bench;
use crate::stream::Stream;
use crate::worker::Worker;
use crate::workloads::Workload;
use crate::{Result, eventually, note, process};

/// Events of one slice, published at once and decided before the next.
const SLICE: usize = 50_000;
/// What is resident after so many slices is what later ones are compared with.
const WARM_UP: usize = 4;
/// Longest that a slice may take.
const PATIENCE: Duration = Duration::from_mins(10);

/// Memory after each slice.
#[derive(Debug, Serialize)]
pub(crate) struct Soak {
    events: usize,
    /// MiB resident after each slice.
    resident_mib: Vec<f64>,
    peak_mib: Option<f64>,
    /// Mean of the last tenth of the slices to that of the first tenth after the warm-up.
    growth: f64,
}

/// Takes at least so many events through a worker.
pub(crate) async fn soak(bench: &Bench, dialect: Dialect, events: usize) -> Result<Soak> {
    let slices = events.div_ceil(SLICE).max(2 * WARM_UP);
    let stream = Stream::start().await?;
    let database = bench.database(dialect, 1).await?;
    let mut worker = Worker::start(&stream, database.url(), &[])?;
    let mut resident_mib = Vec::new();
    for slice in 1..=slices {
        stream.publish(&Workload::Mixed.events(SLICE, slice as u64)).await?;
        let wanted = (slice * SLICE) as u64;
        eventually("a slice to be decided", PATIENCE, async || {
            let metrics = worker.metrics().await?;
            Ok(metrics.filter(|metrics| metrics.outcomes().total() >= wanted))
        })
        .await?;
        let resident = process::memory_mib(worker.pid()).ok_or("the system does not tell")?;
        note(&format!("{:>9} events  {resident:.1} MiB resident", slice * SLICE));
        resident_mib.push(resident);
    }
    let peak_mib = process::memory_peak_mib(worker.pid());
    worker.end().await?;
    let tenth = (slices / 10).max(1);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let growth = mean(&resident_mib[slices - tenth..]) / mean(&resident_mib[WARM_UP..][..tenth]);
    Ok(Soak { events: slices * SLICE, resident_mib, peak_mib, growth })
}
