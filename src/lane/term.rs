//! One term of a lane: from the first pull until the lane is lost, given up, or shut down.

mod ending;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::Instant;

use super::awaited::{Awaited, next, poll_some};
use super::barrier::{Asked, Barrier};
use super::process::{BatchEnd, Bench, ISOLATED_DELIVERIES_MIN};
use super::{Holding, STANDBY};
use crate::audit::AuditLog;
use crate::health::{Component, ComponentState, Health};
use crate::intake::{BrokerError, Delivery, LaneConsumer, LaneInfo};
use crate::shutdown::Shutdown;
use crate::store::{LaneCursor, Store};
use crate::wake::UtcMicros;

/// First wait before the barrier asks again; it doubles up to [`BARRIER_ASK_MAX`].
const BARRIER_ASK_MIN: Duration = Duration::from_millis(5);
/// Longest wait before the barrier asks again.
const BARRIER_ASK_MAX: Duration = Duration::from_millis(500);

/// Patrols without a delivery, while messages are pending, after which the pull is built anew.
const QUIET_PATROLS_MAX: u32 = 2;

/// Why a term ended.
#[derive(Debug)]
pub enum TermEnd {
    /// As asked; everything taken in was finished, or a hold left it to the next owner.
    Shutdown,
    /// The broker is away, or the consumer is gone.
    Broker(BrokerError),
    /// Another worker has the lane.
    LaneLost,
    /// The store stayed away for too long.
    StoreAway,
}

/// What the server's view of the lane asks for.
enum Look {
    /// The term is over.
    End(TermEnd),
    /// The barrier is lowered: read where the lane stands, and go on.
    AllHere,
}

/// State of a term.
pub struct Term<'a, S, A, C: LaneConsumer> {
    bench: &'a Bench<S, A, C>,
    health: &'a Health,
    shutdown: &'a Shutdown,
    barrier: Barrier,
    /// The lane's cursor, read anew whenever the barrier is lowered.
    cursor: Option<LaneCursor>,
    /// Taken in and not in work, by stream sequence. Bounded by the consumer's `max_ack_pending`.
    held: BTreeMap<u64, Delivery>,
    /// In work and not yet settled as a batch.
    in_work: Vec<Delivery>,
    /// Deliveries since the last patrol.
    taken_in: u64,
    /// The pin is ours, as far as is known: deliveries say so, and every patrol asks.
    owned: bool,
    /// Patrols in a row that found nothing taken in: with messages pending, the pull is stuck.
    quiet_patrols: u32,
    pending: u64,
    /// Set once the term only finishes what it has.
    ending: Option<TermEnd>,
    /// The barrier when the server was last asked.
    asked: Asked,
    /// Shutdown was asked for: a hold is no longer waited out.
    stopping: bool,
}

impl<'a, S: Store, A: AuditLog, C: LaneConsumer> Term<'a, S, A, C> {
    /// A term that has not begun to pull.
    pub fn new(bench: &'a Bench<S, A, C>, health: &'a Health, shutdown: &'a Shutdown) -> Self {
        Self {
            bench,
            health,
            shutdown,
            barrier: Barrier::default(),
            cursor: None,
            held: BTreeMap::new(),
            in_work: Vec::new(),
            taken_in: 0,
            owned: false,
            quiet_patrols: 0,
            pending: 0,
            ending: None,
            asked: Barrier::default().asked(),
            stopping: false,
        }
    }

    /// Runs the term to its end.
    pub async fn run(mut self) -> TermEnd {
        // What is still in work then is dropped with it, and with that its connection is free.
        let end = self.until_it_ends().await;
        self.take_back_attempt().await;
        if matches!(end, TermEnd::Shutdown) {
            self.hand_back().await;
        }
        end
    }

    async fn until_it_ends(&mut self) -> TermEnd {
        let mut feed = match self.bench.consumer.open().await {
            Ok(feed) => Some(feed),
            Err(error) => return TermEnd::Broker(error),
        };
        let bench = self.bench;
        let mut working: Awaited<'a, BatchEnd> = None;
        let mut asking: Awaited<'a, Result<LaneInfo, BrokerError>> = None;
        let mut taking: Awaited<'a, Option<LaneCursor>> = None;
        let mut ask_after = BARRIER_ASK_MIN;
        let mut ask_at = Instant::now();
        let mut patrol = tokio::time::interval(bench.options.ack_wait / 3);
        let mut holding = bench.holding.subscribe();
        patrol.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        self.report(None);
        loop {
            if working.is_none() {
                if let Some(cursor) = self.cursor {
                    // While the barrier is up only what the cursor is past is worked: it is decided,
                    // and repeats in any order.
                    let up = self.barrier.is_raised();
                    let batch = self.take_batch(up.then_some(cursor.decided_sequence));
                    if !batch.is_empty() {
                        self.in_work.clone_from(&batch);
                        working = Some(Box::pin(bench.work(cursor, batch)));
                    }
                }
                if working.is_none()
                    && let Some(end) = self.ending.take()
                {
                    return end;
                }
            }
            let asks = self.barrier.is_raised() && working.is_none() && asking.is_none();
            tokio::select! {
                // In this order, so that a run can be told again from its seed. What is first
                // cannot crowd out the rest: the server delivers no more than `max_ack_pending`.
                biased;
                next = next(&mut feed) => match next {
                    Ok(delivery) => {
                        self.take_in(delivery);
                        self.drain(&mut feed);
                        (ask_after, ask_at) = (BARRIER_ASK_MIN, Instant::now());
                    }
                    Err(error) => self.end(TermEnd::Broker(error), &mut feed),
                },
                end = poll_some(&mut working) => {
                    working = None;
                    if let Some(end) = self.worked(end) {
                        return end;
                    }
                }
                cursor = poll_some(&mut taking) => {
                    taking = None;
                    let Some(cursor) = cursor else { return TermEnd::StoreAway };
                    self.taken_up(cursor);
                }
                () = tokio::time::sleep_until(ask_at), if asks => {
                    self.asked = self.barrier.asked();
                    asking = Some(Box::pin(bench.consumer.info()));
                }
                info = poll_some(&mut asking) => {
                    asking = None;
                    match info {
                        Ok(info) => match self.look_at(&info, working.is_some()) {
                            Some(Look::End(end)) => return end,
                            Some(Look::AllHere) => taking = Some(Box::pin(bench.take_up())),
                            None if self.barrier.is_raised() => {
                                ask_at = Instant::now() + ask_after;
                                ask_after = (ask_after * 2).min(BARRIER_ASK_MAX);
                            }
                            None => {}
                        },
                        Err(error) => self.end(TermEnd::Broker(error), &mut feed),
                    }
                }
                _ = patrol.tick() => {
                    self.quiet_patrols = if self.taken_in == 0 { self.quiet_patrols + 1 } else { 0 };
                    self.taken_in = 0;
                    self.keep().await;
                    if asking.is_none() && self.ending.is_none() {
                        self.asked = self.barrier.asked();
                        asking = Some(Box::pin(bench.consumer.info()));
                    }
                }
                _ = holding.changed() => {
                    let held = holding.borrow_and_update().clone();
                    self.report(held.as_ref());
                    if held.is_some() && self.stopping {
                        return self.ending.take().unwrap_or(TermEnd::Shutdown);
                    }
                }
                () = self.shutdown.requested(), if !self.stopping => {
                    self.stopping = true;
                    self.end(TermEnd::Shutdown, &mut feed);
                    if bench.holding.borrow().is_some() {
                        return self.ending.take().unwrap_or(TermEnd::Shutdown);
                    }
                }
            }
        }
    }

    /// A batch has ended. Returns the end of the term, where that ends it too.
    fn worked(&mut self, end: BatchEnd) -> Option<TermEnd> {
        let settled = std::mem::take(&mut self.in_work);
        match end {
            BatchEnd::Settled { cursor } => {
                self.cursor = Some(cursor);
                // A broker that forgot its deliveries in a crash made them again as if for the
                // first time; they are acknowledged all the same.
                for delivery in &settled {
                    self.held.remove(&delivery.message.sequence);
                }
                self.measure();
                None
            }
            BatchEnd::LaneLost => Some(TermEnd::LaneLost),
            BatchEnd::StoreAway => Some(TermEnd::StoreAway),
        }
    }

    /// The lane's cursor was read; meanwhile the lane may have changed hands.
    fn taken_up(&mut self, cursor: LaneCursor) {
        if !self.barrier.is_raised() && self.owned {
            // What is decided may be acknowledged by whoever decided it, and so make up for what is
            // missing. It is settled first; of what is left, nothing can be.
            if self.held.keys().next().is_some_and(|first| *first <= cursor.decided_sequence) {
                self.barrier.doubt();
            }
            self.cursor = Some(cursor);
            self.report(None);
        }
    }

    fn take_in(&mut self, delivery: Delivery) {
        if let Some(raised) = self.barrier.observe(&delivery) {
            tracing::debug!(
                lane = self.bench.lane.lane,
                stream_sequence = delivery.message.sequence,
                ?raised,
                "barrier raised"
            );
        }
        self.taken_in += 1;
        self.owned = true;
        self.pending = delivery.pending;
        if delivery.deliveries > 1 {
            self.bench.metrics.redelivered(1);
        }
        let sequence = delivery.message.sequence;
        let in_work = delivery.deliveries > 1
            && self.in_work.iter().any(|other| other.message.sequence == sequence);
        if !in_work {
            self.held.insert(sequence, delivery);
        }
    }

    /// Takes in what has arrived already, up to a batch.
    fn drain(&mut self, feed: &mut Option<C::Feed>) {
        for _ in 0..self.bench.options.batch_wakes_max {
            match next(feed).now_or_never() {
                Some(Ok(delivery)) => self.take_in(delivery),
                Some(Err(error)) => return self.end(TermEnd::Broker(error), feed),
                None => return,
            }
        }
    }

    /// The next wakes in stream order, up to the limits and to a sequence; what was delivered too
    /// often by itself.
    fn take_batch(&mut self, sequence_max: Option<u64>) -> Vec<Delivery> {
        let options = &self.bench.options;
        let mut batch: Vec<Delivery> = Vec::new();
        let mut bytes = 0;
        while let Some(entry) = self.held.first_entry() {
            if sequence_max.is_some_and(|max| *entry.key() > max) {
                break;
            }
            let delivery = entry.get();
            let alone = delivery.deliveries >= ISOLATED_DELIVERIES_MIN;
            bytes += delivery.message.body.len();
            let full = batch.len() == options.batch_wakes_max || bytes > options.batch_bytes_max;
            if !batch.is_empty() && (alone || full) {
                break;
            }
            batch.push(entry.remove());
            if alone {
                break;
            }
        }
        batch
    }

    /// Tells the server that everything here is still in work.
    async fn keep(&mut self) {
        for delivery in self.in_work.iter().chain(self.held.values()) {
            if let Err(error) = self.bench.consumer.progress(delivery).await {
                tracing::debug!(%error, "progress was not sent");
                return;
            }
        }
    }

    /// Draws the conclusions from the server's view of the lane.
    fn look_at(&mut self, info: &LaneInfo, working: bool) -> Option<Look> {
        self.pending = info.pending;
        let ours = self.barrier.pin_id().is_some() && !self.barrier.is_pinned_elsewhere(info);
        self.owned = ours;
        self.bench.metrics.set_lane_owned(self.bench.lane.lane, ours);
        let has_work = working || !self.held.is_empty();
        let stuck = self.quiet_patrols >= QUIET_PATROLS_MAX && info.pending > 0 && !has_work;
        if stuck && (ours || info.pin_id.is_none()) {
            let error = "messages are pending and none is delivered".to_owned();
            return Some(Look::End(TermEnd::Broker(BrokerError::Unavailable { error })));
        }
        if !ours {
            if has_work && info.pin_id.is_some() {
                return Some(Look::End(TermEnd::LaneLost));
            }
            self.cursor = None;
            self.report(self.bench.holding.borrow().clone().as_ref());
            return None;
        }
        if self.barrier.is_raised() && !working {
            let held: Vec<u64> = self.held.keys().copied().collect();
            if self.barrier.try_lower(info, self.asked, &held) {
                self.cursor = None;
                return Some(Look::AllHere);
            }
            // Somebody acknowledged what was delivered again here: the last owner, late. Which ones
            // cannot be asked, so all are let go, and those still open come again. So do they where
            // nobody is pinned: to one worker then, once all have let go of their part.
            if self.barrier.is_acknowledged_elsewhere(info, self.asked, held.len())
                || self.barrier.is_nobodys(info, self.asked)
            {
                self.held.clear();
            }
        }
        self.measure();
        None
    }

    fn report(&self, holding: Option<&Holding>) {
        let component = Component::Lane(self.bench.lane.lane);
        match holding {
            Some(holding) => {
                self.health.set(component, ComponentState::Waiting, Some(&holding.reason));
            }
            None if self.cursor.is_some() => self.health.set(component, ComponentState::Ok, None),
            None => self.health.set(component, ComponentState::Standby, Some(STANDBY)),
        }
    }

    fn measure(&self) {
        let lane = self.bench.lane.lane;
        let waiting = self.held.len() + self.in_work.len();
        self.bench.metrics.set_lane_pending(lane, self.pending + waiting as u64);
        let oldest = self
            .in_work
            .iter()
            .chain(self.held.values())
            .map(|delivery| delivery.message.stored_at_nanos)
            .min()
            .map(|nanos| self.bench.clock.now().since(UtcMicros::from_nanos(nanos)));
        self.bench.metrics.set_lane_oldest_pending(lane, oldest.unwrap_or_default());
    }
}
