//! `wakegate run`: what surrounds the work of a worker. `/readyz` answers before any server is
//! looked for and until the work has ended.

mod control;
mod queue;
mod traces;

use std::io;
use std::time::Duration;

use clap::Args;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use super::servers::{
    AnyStore, block_on, broker_failure, broker_options, store, topology, topology_failure,
};
use super::{Exit, Failure};
use crate::admission::{GateName, Shadows};
use crate::clock::Clock;
use crate::config::{Config, Loaded};
use crate::error_text::one_line;
use crate::health::Health;
use crate::http;
use crate::lane::LaneOptions;
use crate::lane::hold::JITTER;
use crate::metrics::Metrics;
use crate::queue::work::Work;
use crate::shutdown::{self, Shutdown};
use crate::telemetry::{self, TelemetryError};
use crate::topology::Topology;
use crate::traces::Tracer;
use crate::worker::{Worker, WorkerError};

/// How long requests for metrics and health may still take once the work has ended.
const HTTP_END_MAX: Duration = Duration::from_secs(1);

const AFTER_HELP: &str = "\
SIGTERM or SIGINT: it stops pulling, finishes and settles the batch in work, and ends with exit code
0. A second signal ends it at once; nothing is lost, only time. While nats-server or the database is
away it waits, and /readyz says for what. Where the streams are missing or differ it ends with exit
code 4: run `wakegate streams apply`.

Examples:
  wakegate run
  wakegate run --until-caught-up             decide what is there, then end
  curl -s http://127.0.0.1:9464/readyz       what it waits for";

/// Arguments of `run`.
#[derive(Debug, Clone, Copy, Args)]
#[command(after_help = AFTER_HELP)]
pub struct RunArgs {
    /// End with exit code 0 once every lane has nothing pending and nothing unacknowledged
    #[arg(long)]
    pub until_caught_up: bool,
}

/// What the work of a worker reports to and listens to.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Where it counts.
    pub metrics: Metrics,
    /// Where it says how it does.
    pub health: Health,
    /// When it is to end.
    pub shutdown: Shutdown,
    /// The wall clock.
    pub clock: Clock,
    /// Where it is announced that there is work for runners.
    pub queue: Work,
}

/// Runs the worker until it has ended.
pub(super) fn execute(loaded: &Loaded, args: RunArgs) -> Result<Exit, Failure> {
    telemetry::init(&loaded.config.log)
        .map_err(|error: TelemetryError| Failure::of("cannot log", &error))?;
    warn_of_shadows(loaded.config.gates.shadows);
    block_on(&mut Builder::new_multi_thread(), surround(loaded, args))
}

/// A gate in shadow refuses nothing: nobody may learn of that by accident.
fn warn_of_shadows(shadows: Shadows) {
    for gate in shadows.gates() {
        let gate = gate.as_str();
        warn!(gate, "gate {gate} is in shadow: it says what it would refuse and refuses nothing");
    }
    if shadows.has(GateName::Pause) {
        warn!(
            "gate pause is in shadow: a pause of the platform or of an organization stops nothing"
        );
    }
}

async fn surround(loaded: &Loaded, args: RunArgs) -> Result<Exit, Failure> {
    let config = &loaded.config;
    let topology = topology(config)?;
    let shutdown = Shutdown::new();
    let signals = shutdown::signals(&shutdown)
        .map_err(|error| Failure::of("cannot listen for signals", &error))?;
    let listener = http::bind(config.http.addr).await.map_err(|error| {
        let failure = Failure::new(one_line(&error));
        if error.error.kind() == io::ErrorKind::AddrInUse {
            failure.remedy("another process listens there; end it, or set WAKEGATE_HTTP_ADDR")
        } else {
            failure.remedy("set WAKEGATE_HTTP_ADDR to an address of this machine")
        }
    })?;
    if let Ok(addr) = listener.local_addr() {
        info!(%addr, "serving /metrics, /livez and /readyz");
    }
    let clock = Clock::system();
    let lanes = topology.partitions();
    let surroundings = Surroundings {
        metrics: Metrics::new(lanes),
        health: Health::new(clock.clone(), lanes, shutdown.clone())
            .with_shadows(config.gates.shadows),
        shutdown: shutdown.clone(),
        clock,
        queue: Work::default(),
    };

    let mut listening = JoinSet::new();
    listening.spawn(signals);
    let mut serving = JoinSet::new();
    serving.spawn(http::serve(
        listener,
        surroundings.metrics.clone(),
        surroundings.health.clone(),
        shutdown.clone(),
    ));
    let controlling = control::start(loaded, &surroundings).await?;
    let queueing = queue::start(config, &surroundings).await?;
    let (tracer, exporter) = traces::start(config, &surroundings);
    let work = Box::pin(work(config, topology, args, tracer, surroundings.clone()));
    let worked = traces::flushed(exporter, config, &surroundings, work).await;
    shutdown.finish();
    match tokio::time::timeout(HTTP_END_MAX, serving.join_next()).await {
        Ok(Some(Ok(Err(error)))) => error!(error = one_line(&error), "serving metrics failed"),
        Ok(Some(Err(error))) => error!(error = one_line(&error), "serving metrics failed"),
        // Ended, or a client that does not hang up: dropping the set ends that too.
        Ok(Some(Ok(Ok(()))) | None) | Err(_) => {}
    }
    ended(controlling, "answering operators failed").await;
    ended(queueing, "the queue's service failed").await;
    worked
}

/// What goes on beside the work, and ends by itself once the work is to end.
type Beside = JoinSet<Result<(), async_nats::Error>>;

/// Waits until it has ended.
async fn ended(mut beside: Beside, failed: &str) {
    while let Some(ended) = beside.join_next().await {
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => error!(error = one_line(fault.as_ref()), "{failed}"),
            Err(fault) => error!(error = one_line(&fault), "{failed}"),
        }
    }
}

/// The work itself, on the configured store, until it has caught up or is told to end.
async fn work(
    config: &Config,
    topology: Topology,
    args: RunArgs,
    tracer: Tracer,
    surroundings: Surroundings,
) -> Result<Exit, Failure> {
    let ended = match store(config)? {
        AnyStore::Postgres(store) => {
            worker(config, topology, args, tracer, surroundings, store).run().await
        }
        AnyStore::Sqlite(store) => {
            worker(config, topology, args, tracer, surroundings, store).run().await
        }
    };
    ended.map(|()| Exit::Done).map_err(|error| failure(config, &error))
}

fn worker<S>(
    config: &Config,
    topology: Topology,
    args: RunArgs,
    tracer: Tracer,
    surroundings: Surroundings,
    store: S,
) -> Worker<S> {
    let (ack_wait, pin_timeout) = topology.lane_times();
    Worker {
        store,
        broker: broker_options(config),
        topology,
        lanes: LaneOptions {
            batch_wakes_max: config.lanes.batch_wakes_max as usize,
            batch_bytes_max: config.lanes.batch_bytes_max,
            hold_backoff_min: config.lanes.hold_backoff_min,
            hold_backoff_max: config.lanes.hold_backoff_max,
            hold_backoff_jitter: JITTER,
            store_away_give_up: config.lanes.store_away_give_up,
            ack_wait,
            pin_timeout,
            ceilings: config.limits.enforced(),
        },
        shadows: config.gates.shadows,
        tracer,
        shutdown_deadline: config.shutdown.deadline,
        // Who ends once it has caught up takes what it gets, and lets nobody move lanes for it.
        spread: config.lanes.spread && !args.until_caught_up,
        until_caught_up: args.until_caught_up,
        metrics: surroundings.metrics,
        health: surroundings.health,
        shutdown: surroundings.shutdown,
        clock: surroundings.clock,
        queue: surroundings.queue,
    }
}

fn failure(config: &Config, error: &WorkerError) -> Failure {
    match error {
        WorkerError::Connect(error) => broker_failure(error),
        WorkerError::Topology(error) => topology_failure(error),
        WorkerError::Schema { .. } | WorkerError::Lane(_) | WorkerError::Panicked(_) => {
            Failure::new(config.database.url.url().scrub(&one_line(error)))
        }
    }
}
