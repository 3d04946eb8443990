//! The worker: waits for its servers, checks that they are as declared, and works every lane until
//! it is told to end.

mod removed;
mod spread;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use self::spread::Spread;
use crate::admission::Shadows;
use crate::audit::jetstream::JetStreamAudit;
use crate::broker::{self, Broker, BrokerOptions, Link};
use crate::clock::Clock;
use crate::control::worker::host;
use crate::error_text::one_line;
use crate::health::{Component, ComponentState, Health};
use crate::intake::jetstream::JetStreamLane;
use crate::intake::{BrokerError, LaneConsumer as _};
use crate::lane::hold::Delays;
use crate::lane::place::Place;
use crate::lane::process::Bench;
use crate::lane::{Lane, LaneOptions};
use crate::metrics::Metrics;
use crate::queue::work::Work;
use crate::shutdown::Shutdown;
use crate::store::{Database, LaneKey, SchemaState, StoreError};
use crate::topology::{StreamFacts, Topology, TopologyError};
use crate::traces::Tracer;

/// How often the servers are looked at for readiness.
const PATROL: Duration = Duration::from_secs(2);
/// How often `--until-caught-up` asks whether anything is left.
const CAUGHT_UP_ASK: Duration = Duration::from_millis(50);

/// What a worker is given.
pub struct Worker<S> {
    /// Where decisions are kept.
    pub store: S,
    /// How to connect to NATS.
    pub broker: BrokerOptions,
    /// What the streams are declared to be.
    pub topology: Topology,
    /// Limits of every lane; the two times of the server's are taken from the topology.
    pub lanes: LaneOptions,
    /// Which gates only say what they would refuse.
    pub shadows: Shadows,
    /// Makes spans.
    pub tracer: Tracer,
    /// Longest that the end may take once it was asked for.
    pub shutdown_deadline: Duration,
    /// Share the lanes with the other replicas.
    pub spread: bool,
    /// End once nothing is pending and nothing unacknowledged in any lane.
    pub until_caught_up: bool,
    /// What is counted.
    pub metrics: Metrics,
    /// What `/readyz` says.
    pub health: Health,
    /// Ends the worker.
    pub shutdown: Shutdown,
    /// Stamps `decided_at`.
    pub clock: Clock,
    /// Where it is announced that runs were queued.
    pub queue: Work,
}

/// Why a worker ended other than by being told to. Each names what a person has to do.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// Correct the configuration.
    #[error(transparent)]
    Connect(#[from] broker::BrokerError),
    /// The streams are missing or not as declared.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The schema is missing, or not the one this program knows.
    #[error("{remedy}")]
    Schema {
        /// What to run.
        remedy: String,
    },
    /// A stream or consumer went away while the worker ran.
    #[error(transparent)]
    Lane(#[from] BrokerError),
    /// A bug: a lane ended by a panic. Its wakes are delivered again.
    #[error("a lane ended by a panic: {0}")]
    Panicked(String),
}

impl<S: Database> Worker<S> {
    /// Runs until shutdown, or until caught up.
    ///
    /// # Errors
    /// [`WorkerError`] for what waiting cannot mend.
    pub async fn run(self) -> Result<(), WorkerError> {
        let broker = broker::connect(&self.broker).await?;
        let shutdown = self.shutdown.clone();
        let prepared = tokio::select! {
            prepared = self.prepare(&broker) => prepared?,
            () = shutdown.requested() => return Ok(()),
        };
        self.work(&broker, &prepared).await
    }

    /// Waits for both servers, with backoff and without end, and says for what.
    async fn prepare(&self, broker: &Broker) -> Result<StreamFacts, WorkerError> {
        let (streams, ()) = tokio::try_join!(self.streams(broker), self.schema())?;
        Ok(streams)
    }

    async fn streams(&self, broker: &Broker) -> Result<StreamFacts, WorkerError> {
        let context = broker.jetstream();
        let batch_wakes_max = u32::try_from(self.lanes.batch_wakes_max).unwrap_or(u32::MAX);
        let mut delays = self.delays();
        loop {
            self.look_at_link(broker);
            if *broker.link.borrow() == Link::Up {
                match self.topology.verify(&context, batch_wakes_max).await {
                    Ok(facts) => {
                        self.health.ok(Component::Nats);
                        self.health.ok(Component::Streams);
                        return Ok(facts);
                    }
                    Err(error) if error.is_temporary() => {
                        let reason = error.to_string();
                        tracing::warn!(%error, "waiting for JetStream");
                        let waiting = ComponentState::Waiting;
                        self.health.set(Component::Streams, waiting, Some(&reason));
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            let mut link = broker.link.clone();
            tokio::select! {
                () = tokio::time::sleep(delays.next_delay()) => {}
                _ = link.changed() => {}
            }
        }
    }

    async fn schema(&self) -> Result<(), WorkerError> {
        let mut delays = self.delays();
        loop {
            match self.store.schema_state().await {
                Ok(SchemaState::Current) => {
                    self.health.ok(Component::Database);
                    return Ok(());
                }
                Ok(state) => {
                    let remedy = state.remedy().unwrap_or_default();
                    return Err(WorkerError::Schema { remedy });
                }
                Err(error) => {
                    tracing::warn!(error = %one_line(&error), "waiting for the database");
                    self.note_database(&Err(error));
                }
            }
            tokio::time::sleep(delays.next_delay()).await;
        }
    }

    async fn work(&self, broker: &Broker, streams: &StreamFacts) -> Result<(), WorkerError> {
        let context = broker.jetstream();
        let consumers: Vec<JetStreamLane> = (0..streams.partitions)
            .map(|lane| {
                JetStreamLane::new(
                    context.clone(),
                    &streams.stream,
                    lane,
                    self.lanes.batch_wakes_max,
                    self.lanes.batch_bytes_max,
                    self.metrics.clone(),
                )
            })
            .collect();
        let component: Arc<str> = Arc::from(format!("{}.{}", host(), std::process::id()));
        let audit = JetStreamAudit::new(context, self.broker.request_timeout);
        let benches: Vec<_> = (0..)
            .zip(&consumers)
            .map(|(lane, consumer)| Bench {
                store: self.store.clone(),
                audit: audit.clone(),
                consumer: consumer.clone(),
                metrics: self.metrics.clone(),
                clock: self.clock.clone(),
                component: Arc::clone(&component),
                lane: LaneKey {
                    stream: streams.stream.clone(),
                    stream_created_at: streams.created,
                    lane,
                },
                options: self.lanes,
                shadows: self.shadows,
                tracer: self.tracer.clone(),
                holding: tokio::sync::watch::Sender::new(None),
                queue: self.queue.clone(),
            })
            .collect();
        // The others answer while it is accounted for what the stream has removed.
        let spread = if self.spread {
            Spread::join(broker, &benches, &self.health, &self.clock).await
        } else {
            None
        };
        tokio::select! {
            accounted = removed::account(&benches, &self.health, self.delays()) => accounted?,
            () = self.patrol(broker) => {}
            () = self.shutdown.requested() => return Ok(()),
        }
        let mut lanes = JoinSet::new();
        let mut spreading = JoinSet::new();
        let mut places = vec![Place::default(); benches.len()];
        if let Some(mut spread) = spread {
            places = spread.places();
            spreading.spawn(spread.run(self.shutdown.clone()));
        }
        for (bench, place) in benches.iter().cloned().zip(places) {
            let lane = Lane::new(bench, self.health.clone(), self.shutdown.clone());
            lanes.spawn(lane.placed(place).run());
        }
        self.health.ok(Component::Audit);
        tracing::info!(lanes = streams.partitions, "working");
        tokio::select! {
            ended = self.join(&mut lanes) => return ended,
            () = self.patrol(broker) => {}
            () = self.caught_up(&benches) => {
                tracing::info!("caught up: nothing is pending and nothing unacknowledged");
                self.shutdown.request();
            }
            () = self.shutdown.requested() => {}
        }
        self.end(&mut lanes, &mut spreading).await
    }

    /// Waits for every lane; the first that fails ends the others.
    async fn join(&self, lanes: &mut JoinSet<Result<(), BrokerError>>) -> Result<(), WorkerError> {
        let mut outcome = Ok(());
        while let Some(lane) = lanes.join_next().await {
            let ended = match lane {
                Ok(ended) => ended.map_err(WorkerError::Lane),
                Err(error) if error.is_cancelled() => Ok(()),
                Err(error) => Err(WorkerError::Panicked(one_line(&error))),
            };
            if ended.is_err() {
                self.shutdown.request();
                outcome = outcome.and(ended);
            }
        }
        outcome
    }

    /// Lets every lane finish its batch, within the deadline; what is left is delivered again.
    async fn end(
        &self,
        lanes: &mut JoinSet<Result<(), BrokerError>>,
        spreading: &mut JoinSet<()>,
    ) -> Result<(), WorkerError> {
        let deadline = Instant::now() + self.shutdown_deadline;
        let farewell = spreading.join_next();
        let ended = async { tokio::join!(self.join(lanes), farewell).0 };
        if let Ok(ended) = tokio::time::timeout_at(deadline, ended).await {
            return ended;
        }
        tracing::warn!(
            lanes = lanes.len(),
            "the deadline of the shutdown is over: what is in work is delivered again"
        );
        lanes.abort_all();
        self.join(lanes).await
    }

    /// Keeps readiness true to the servers. Never returns.
    async fn patrol(&self, broker: &Broker) {
        let mut ticks = tokio::time::interval(PATROL);
        let mut link = broker.link.clone();
        loop {
            tokio::select! {
                _ = ticks.tick() => self.note_database(&self.store.ping().await),
                changed = link.changed() => if changed.is_err() {
                    std::future::pending::<()>().await;
                },
            }
            self.look_at_link(broker);
        }
    }

    fn look_at_link(&self, broker: &Broker) {
        let (Link::Connecting(fault) | Link::Down(fault)) = &*broker.link.borrow() else {
            self.health.ok(Component::Nats);
            return;
        };
        let fault = fault.as_deref().unwrap_or("not connected");
        let reason = format!("{fault} ({})", broker.servers);
        self.health.set(Component::Nats, ComponentState::Waiting, Some(&reason));
    }

    fn note_database(&self, answer: &Result<(), StoreError>) {
        match answer {
            Ok(()) => self.health.ok(Component::Database),
            Err(error) => {
                let reason = one_line(error);
                self.health.set(Component::Database, ComponentState::Waiting, Some(&reason));
            }
        }
    }

    /// Returns once every lane has nothing pending and nothing unacknowledged, and the database knows
    /// what was acknowledged; never, unless asked to look.
    async fn caught_up(&self, benches: &[Bench<S, JetStreamAudit, JetStreamLane>]) {
        if !self.until_caught_up {
            std::future::pending::<()>().await;
        }
        let mut ticks = tokio::time::interval(CAUGHT_UP_ASK);
        'ask: loop {
            ticks.tick().await;
            for bench in benches {
                match bench.consumer.info().await {
                    Ok(info) if info.pending == 0 && info.unacknowledged == 0 => {}
                    _ => continue 'ask,
                }
                if !matches!(bench.may_pull().await, Ok(None)) {
                    continue 'ask;
                }
            }
            return;
        }
    }

    fn delays(&self) -> Delays {
        Delays::of(&self.lanes)
    }
}
