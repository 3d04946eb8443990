//! One lane: takes deliveries in, works them in stream order, and keeps them ours meanwhile.
//!
//! The server pins a lane to one worker at a time. Two things keep its evaluation serial across a
//! change of owner: the fence in the store (a worker that lost its lane cannot commit) and the
//! barrier (nothing is decided until everything unacknowledged is here, in order).

mod awaited;
pub mod barrier;
mod behind;
pub mod facts;
pub mod hold;
pub mod instant;
pub mod isolated;
pub(crate) mod lost;
pub mod place;
pub mod process;
pub mod record;
pub mod report;
pub mod term;
pub mod watch;
mod work;

use std::time::Duration;

use self::hold::Delays;
use self::place::Place;
use self::process::Bench;
use self::term::{Term, TermEnd};
use self::watch::Watch;
use crate::admission::limits::Ceilings;
use crate::audit::AuditLog;
use crate::health::{Component, ComponentState, Health};
use crate::intake::{BrokerError, LaneConsumer};
use crate::metrics::HoldCause;
use crate::shutdown::Shutdown;
use crate::store::Store;

/// What `/readyz` says of a lane that another worker owns, or nobody yet.
pub const STANDBY: &str = "not owned by this worker";

/// How often, and how many times, a consumer that is gone is looked for again.
const MADE_ANEW_LOOK: Duration = Duration::from_millis(100);
const MADE_ANEW_LOOKS: u32 = 10;

/// Limits of a lane.
#[derive(Debug, Clone, Copy)]
pub struct LaneOptions {
    /// Most wakes of one batch.
    pub batch_wakes_max: usize,
    /// Most bytes of bodies in one batch; a batch holds at least one wake.
    pub batch_bytes_max: usize,
    /// Shortest wait of a hold.
    pub hold_backoff_min: Duration,
    /// Longest wait of a hold.
    pub hold_backoff_max: Duration,
    /// How much shorter or longer each wait may be, as a part of it: [`hold::JITTER`], or none where
    /// a run is to be the same each time.
    pub hold_backoff_jitter: f64,
    /// A store that stays away for this long costs the worker its lanes.
    pub store_away_give_up: Duration,
    /// The consumer's `ack_wait`; progress is sent every third of it.
    pub ack_wait: Duration,
    /// The consumer's `priority_timeout`: a pin that is not renewed for this long moves.
    pub pin_timeout: Duration,
    /// The platform's ceilings; none only where they are not enforced.
    pub ceilings: Option<Ceilings>,
}

/// What a lane waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// Which server.
    pub cause: HoldCause,
    /// The error, in one line.
    pub reason: String,
}

/// A lane and what it is worked with.
#[derive(Debug)]
pub struct Lane<S, A, C> {
    bench: Bench<S, A, C>,
    health: Health,
    shutdown: Shutdown,
    place: Place,
}

impl<S: Store, A: AuditLog, C: LaneConsumer> Lane<S, A, C> {
    /// A lane that does nothing yet.
    #[must_use]
    pub fn new(bench: Bench<S, A, C>, health: Health, shutdown: Shutdown) -> Self {
        Self { bench, health, shutdown, place: Place::default() }
    }

    /// The same lane, pulled only where it is to be.
    #[must_use]
    pub fn placed(self, place: Place) -> Self {
        Self { place, ..self }
    }

    /// Works the lane until shutdown.
    ///
    /// # Errors
    /// [`BrokerError::Gone`] when the stream or the consumer is gone, [`BrokerError::Recreated`]
    /// when it is another one than before: only an operator can mend it.
    pub async fn run(self) -> Result<(), BrokerError> {
        let lane = self.bench.lane.lane;
        let component = Component::Lane(lane);
        let options = self.bench.options;
        let mut delays = Delays::of(&options);
        let mut watch = Watch::new(lane);
        while !self.shutdown.is_requested() {
            self.bench.holding.send_replace(None);
            let started = tokio::time::Instant::now();
            let end = match self.until_it_may_pull().await {
                Some(end) => end,
                None => self.until_it_ends(&mut watch).await,
            };
            self.bench.metrics.set_lane_owned(lane, false);
            if started.elapsed() > options.pin_timeout {
                delays.reset();
            }
            let pause = match end {
                TermEnd::Shutdown if self.shutdown.is_requested() => break,
                TermEnd::Shutdown => continue,
                TermEnd::Broker(BrokerError::Gone { .. }) if self.is_made_anew().await => {
                    tracing::info!(lane, "the lane's consumer was made anew");
                    continue;
                }
                TermEnd::Broker(
                    error @ (BrokerError::Gone { .. } | BrokerError::Recreated { .. }),
                ) => {
                    self.health.set(component, ComponentState::Failed, Some(&error.to_string()));
                    return Err(error);
                }
                TermEnd::Broker(error) => {
                    self.bench.metrics.lane_hold(HoldCause::Broker);
                    tracing::warn!(lane, %error, "the lane waits for its broker");
                    self.health.set(component, ComponentState::Waiting, Some(&error.to_string()));
                    delays.next_delay()
                }
                TermEnd::LaneLost => {
                    tracing::info!(lane, "another worker has the lane");
                    self.health.set(component, ComponentState::Standby, Some(STANDBY));
                    delays.next_delay()
                }
                TermEnd::StoreAway => {
                    let reason = "the database stays away: the lane is left to other workers";
                    self.health.set(component, ComponentState::Waiting, Some(reason));
                    options.pin_timeout * 2
                }
            };
            tokio::select! {
                biased;
                () = self.shutdown.requested() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        Ok(())
    }

    /// One term. Where the lane is to be left to another worker it ends in order, as at a shutdown.
    async fn until_it_ends(&self, watch: &mut Watch) -> TermEnd {
        let ending = self.shutdown.within();
        let mut term = std::pin::pin!(Term::new(&self.bench, &self.health, &ending, watch).run());
        tokio::select! {
            biased;
            end = &mut term => end,
            () = self.place.until_stand_by() => {
                ending.request();
                term.await
            }
        }
    }

    /// Waits, without pulling, while the lane is left to another worker, and while the database is
    /// behind what the lane has acknowledged. Returns the end of a term that could not begin.
    async fn until_it_may_pull(&self) -> Option<TermEnd> {
        if self.place.is_elsewhere() {
            // Whatever it waited for is the other worker's to wait for.
            let component = Component::Lane(self.bench.lane.lane);
            self.health.set(component, ComponentState::Standby, Some(STANDBY));
        }
        tokio::select! {
            biased;
            () = self.shutdown.requested() => return Some(TermEnd::Shutdown),
            () = self.place.until_pull() => {}
        }
        let options = self.bench.options;
        let mut delays = Delays::of(&options);
        loop {
            let may = tokio::select! {
                biased;
                () = self.shutdown.requested() => return Some(TermEnd::Shutdown),
                may = self.bench.may_pull() => may,
            };
            match may {
                Ok(None) => {
                    self.bench.holding.send_replace(None);
                    return None;
                }
                Ok(Some(reason)) => {
                    let component = Component::Lane(self.bench.lane.lane);
                    self.health.set(component, ComponentState::Waiting, Some(&reason));
                }
                Err(error) => return Some(TermEnd::Broker(error)),
            }
            tokio::select! {
                biased;
                () = self.shutdown.requested() => return Some(TermEnd::Shutdown),
                () = tokio::time::sleep(delays.next_delay()) => {}
            }
        }
    }

    /// Whether a consumer that is gone comes back at once: `wakegate streams rewind` deletes it and
    /// makes it anew. That the stream is the same is seen to when the next term begins.
    async fn is_made_anew(&self) -> bool {
        let mut looks = tokio::time::interval(MADE_ANEW_LOOK);
        for _ in 0..MADE_ANEW_LOOKS {
            looks.tick().await;
            if self.bench.consumer.info().await.is_ok() {
                return true;
            }
        }
        false
    }
}
