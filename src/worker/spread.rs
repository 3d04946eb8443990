//! Spreads the lanes over the replicas, so that not all of them are with whoever pulled first.
//!
//! Replicas announce themselves on one subject of core NATS: which lanes each owns, takes for its own,
//! and cannot work. Whoever has heard the same comes to the same plan (`spread/plan.rs`), pulls its
//! own lanes, and leaves the others alone. What an owner has too much of it gives up in order, once
//! the replica that is to have it asks for it, and has been steady for a while.
//!
//! None of it is needed for anything to be right: the server pins a lane to one worker, and the fence
//! and the barrier hold whoever that is. So announcements are believed only as far as that costs
//! nothing but time. A lane that is left to others is looked at, and pulled when wakes wait and nobody
//! is pinned; and what is given up again and again is given up ever more seldom.

mod announcement;
mod decide;
mod plan;
mod rest;
mod roster;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use async_nats::{Client, Subscriber};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, timeout};

use self::announcement::{Announcement, SUBJECT};
use self::decide::{Seen, Spreading, Times};
use crate::broker::{Broker, Link};
use crate::clock::Clock;
use crate::error_text::one_line;
use crate::health::{Component, Health};
use crate::intake::LaneConsumer;
use crate::lane::place::{Place, Stance};
use crate::lane::process::Bench;
use crate::lane::{Holding, LaneOptions};
use crate::metrics::Metrics;
use crate::shutdown::Shutdown;

/// Shortest time between two announcements, whatever there is to say.
const ANNOUNCE_APART: Duration = Duration::from_millis(20);
/// Announcements of its own that a worker does not hear, after which it takes itself for mute.
const UNHEARD_MAX: u32 = 8;
/// Between two announcements of a worker that is mute: the server logs each that it denies.
const MUTE_ANNOUNCE_EVERY: Duration = Duration::from_mins(1);

/// Looks at lanes, on their way: which of them wait with nobody pinned.
type Looking = Pin<Box<dyn Future<Output = Vec<(u32, bool)>> + Send>>;

/// One lane, as far as spreading goes.
struct SpreadLane<C> {
    consumer: C,
    holding: watch::Receiver<Option<Holding>>,
    decides: watch::Sender<Stance>,
}

/// This worker's part in the spreading.
pub(super) struct Spread<C> {
    client: Client,
    link: watch::Receiver<Link>,
    heard: Subscriber,
    stream: String,
    lanes: Vec<SpreadLane<C>>,
    spreading: Spreading,
    times: Times,
    metrics: Metrics,
    health: Health,
    said: Option<Announcement>,
    said_at: Instant,
    announce_at: Instant,
    unheard: u32,
}

impl<C: LaneConsumer> Spread<C> {
    /// Begins to listen, and says that it is here; the others answer at once. It pulls nothing yet.
    /// None where there is no listening: then every lane is pulled.
    pub(super) async fn join<S, A>(
        broker: &Broker,
        benches: &[Bench<S, A, C>],
        health: &Health,
        clock: &Clock,
    ) -> Option<Self> {
        let first = benches.first()?;
        let heard = match broker.client.subscribe(SUBJECT).await {
            Ok(heard) => heard,
            Err(error) => {
                tracing::warn!(error = %one_line(&error), "other replicas are not listened to");
                return None;
            }
        };
        let options: &LaneOptions = &first.options;
        let times = Times::of(options);
        let stream = first.lane.stream.to_string();
        let lanes = benches.iter().map(|bench| SpreadLane {
            consumer: bench.consumer.clone(),
            holding: bench.holding.subscribe(),
            decides: watch::Sender::new(Stance::Pull),
        });
        let lanes: Vec<_> = lanes.collect();
        let count = u32::try_from(lanes.len()).unwrap_or(u32::MAX);
        // The last token of an inbox is unique.
        let inbox = broker.client.new_inbox();
        let replica = inbox.rsplit('.').next().unwrap_or(&inbox).to_owned();
        let since = clock.now().micros();
        let now = Instant::now();
        let spread = Self {
            client: broker.client.clone(),
            link: broker.link.clone(),
            heard,
            spreading: Spreading::new(replica, stream.clone(), since, count, times),
            stream,
            lanes,
            times,
            metrics: first.metrics.clone(),
            health: health.clone(),
            said: None,
            said_at: now,
            announce_at: now,
            unheard: 0,
        };
        let hello = spread.spreading.hello(now);
        spread.say(&hello).await;
        Some(spread)
    }

    /// Decides about every lane for the first time, from what has been heard by now, and returns what
    /// each lane is to follow.
    pub(super) fn places(&mut self) -> Vec<Place> {
        while let Some(Some(message)) = tokio::task::unconstrained(self.heard.next()).now_or_never()
        {
            self.hear(&message.payload);
        }
        self.decide();
        self.lanes.iter().map(|lane| Place::told(lane.decides.subscribe())).collect()
    }

    /// Spreads until shutdown, and says farewell.
    pub(super) async fn run(mut self, shutdown: Shutdown) {
        let mut ticks = tokio::time::interval(self.times.announce_every);
        let mut looks = tokio::time::interval(self.times.look_every);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looking: Option<Looking> = None;
        loop {
            self.decide();
            self.announce().await;
            tokio::select! {
                message = self.heard.next() => match message {
                    Some(message) => self.hear(&message.payload),
                    // The client is closed; whoever follows this one finds nobody there, and pulls.
                    None => return,
                },
                _ = ticks.tick() => {}
                () = tokio::time::sleep_until(self.announce_at), if self.is_connected() => {}
                _ = looks.tick(), if looking.is_none() => looking = Some(self.look()),
                looked = poll_some(&mut looking) => {
                    looking = None;
                    self.spreading.looked(&looked, Instant::now());
                }
                () = shutdown.requested() => break,
            }
        }
        let farewell = self.spreading.farewell(Instant::now());
        self.say(&farewell).await;
        let _ = timeout(self.times.announce_every, self.client.flush()).await;
    }

    fn is_connected(&self) -> bool {
        *self.link.borrow() == Link::Up
    }

    fn hear(&mut self, body: &[u8]) {
        let Some(said) = Announcement::read(body, &self.stream) else { return };
        if self.spreading.is_own(&said) {
            if self.unheard >= UNHEARD_MAX {
                tracing::info!("announcements arrive: the lanes are spread again");
                self.announce_soon();
            }
            self.unheard = 0;
        } else if self.spreading.hear(&said, Instant::now()) {
            self.announce_soon();
        }
    }

    /// Sees how the worker does, and tells each lane what to do.
    fn decide(&mut self) {
        let now = Instant::now();
        if !self.is_connected() {
            self.spreading.deaf(now);
        }
        let seen: Vec<Seen> = (0..)
            .zip(&self.lanes)
            .map(|(lane, spread)| Seen {
                owned: self.metrics.lane_owned(lane),
                holding: spread.holding.borrow().is_some(),
            })
            .collect();
        self.spreading.see(&seen, self.health.is_ok(Component::Database), now);
        let before = self.spreading.mine().clone();
        for lane in self.spreading.decide(now) {
            tracing::info!(lane, "the lane is given up: it is another replica's share");
            self.metrics.lane_handed_over();
        }
        for (lane, stance) in self.lanes.iter().zip(self.spreading.stances()) {
            lane.decides.send_if_modified(|told| std::mem::replace(told, stance) != stance);
        }
        let replicas = self.spreading.replicas();
        self.metrics.set_replicas(replicas);
        if *self.spreading.mine() != before {
            let share = self.spreading.mine();
            tracing::info!(replicas, ?share, "the lanes are shared anew");
        }
    }

    /// Announces this replica, if it is time or if there is something new to say.
    async fn announce(&mut self) {
        let now = Instant::now();
        let saying = self.spreading.announcement(now);
        if self.said.as_ref() != Some(&saying) && self.unheard < UNHEARD_MAX {
            self.announce_soon();
        }
        // What is said while the connection is away would pile up, and be old when it arrives.
        if now < self.announce_at || !self.is_connected() {
            return;
        }
        self.say(&saying).await;
        self.said = Some(saying);
        self.unheard = self.unheard.saturating_add(1);
        if self.unheard == UNHEARD_MAX {
            tracing::warn!(
                "announcements on {SUBJECT} do not arrive, so lanes stay with whoever pulled them \
                 first: the worker's user needs to publish and to subscribe there"
            );
        }
        let mute = self.unheard >= UNHEARD_MAX;
        let every = if mute { MUTE_ANNOUNCE_EVERY } else { self.times.announce_every };
        self.said_at = now;
        self.announce_at = now + every;
    }

    fn announce_soon(&mut self) {
        self.announce_at = self.announce_at.min(self.said_at + ANNOUNCE_APART);
    }

    async fn say(&self, announcement: &Announcement) {
        let Ok(body) = serde_json::to_vec(announcement) else { return };
        let said = self.client.publish(SUBJECT, body.into());
        // Only a client that cannot send keeps one waiting; the next announcement says it again.
        if !matches!(timeout(self.times.announce_every, said).await, Ok(Ok(()))) {
            tracing::debug!("an announcement was not sent");
        }
    }

    /// Asks the server about the lanes that are left to others, one after the other.
    fn look(&self) -> Looking {
        let left = self.spreading.left().into_iter();
        let left: Vec<_> = left
            .filter_map(|lane| Some((lane, self.lanes.get(lane as usize)?.consumer.clone())))
            .collect();
        Box::pin(async move {
            let mut looks = Vec::new();
            for (lane, consumer) in left {
                let Ok(info) = consumer.info().await else { continue };
                let waits = info.pending > 0 || info.unacknowledged > 0;
                looks.push((lane, waits && info.pin_id.is_none()));
            }
            looks
        })
    }
}

async fn poll_some(looking: &mut Option<Looking>) -> Vec<(u32, bool)> {
    match looking {
        Some(looking) => looking.await,
        None => std::future::pending().await,
    }
}
