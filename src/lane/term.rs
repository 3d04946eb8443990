//! One term of a lane: from the first pull until the lane is lost, given up, or shut down.

mod ending;
mod looking;
mod showing;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::Instant;

use self::looking::Look;
use super::awaited::{Awaited, next, poll_some};
use super::barrier::{Asked, Barrier};
use super::process::{BatchEnd, Bench, ISOLATED_DELIVERIES_MIN};
use super::watch::{Seen, Watch, look};
use crate::audit::AuditLog;
use crate::health::Health;
use crate::intake::{BrokerError, Delivery, LaneConsumer};
use crate::shutdown::Shutdown;
use crate::store::{LaneCursor, Store};

/// First wait before the barrier asks again; it doubles up to [`BARRIER_ASK_MAX`].
const BARRIER_ASK_MIN: Duration = Duration::from_millis(5);
/// Longest wait before the barrier asks again.
const BARRIER_ASK_MAX: Duration = Duration::from_millis(500);

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

/// State of a term.
pub struct Term<'a, S, A, C: LaneConsumer> {
    bench: &'a Bench<S, A, C>,
    health: &'a Health,
    shutdown: &'a Shutdown,
    barrier: Barrier,
    /// The lane's cursor, read anew whenever the barrier is lowered.
    cursor: Option<LaneCursor>,
    /// Taken in and not in work, by stream sequence. Bounded by the consumer's `max_ack_pending`.
    held: BTreeMap<u64, Arc<Delivery>>,
    /// In work and not yet settled as a batch.
    in_work: Vec<Arc<Delivery>>,
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
    /// What waits on the stream, against what arrives.
    watch: &'a mut Watch,
    /// What was removed undecided is being reported.
    losing: bool,
    /// Shutdown was asked for: a hold is no longer waited out.
    stopping: bool,
}

impl<'a, S: Store, A: AuditLog, C: LaneConsumer> Term<'a, S, A, C> {
    /// A term that has not begun to pull.
    pub fn new(
        bench: &'a Bench<S, A, C>,
        health: &'a Health,
        shutdown: &'a Shutdown,
        watch: &'a mut Watch,
    ) -> Self {
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
            watch,
            losing: false,
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
        let in_hand = self.in_work.iter().chain(self.held.values());
        self.watch.let_go(in_hand.map(|delivery| delivery.message.sequence));
        end
    }

    async fn until_it_ends(&mut self) -> TermEnd {
        let mut feed = match self.bench.consumer.open().await {
            Ok(feed) => Some(feed),
            Err(error) => return TermEnd::Broker(error),
        };
        let bench = self.bench;
        let mut working: Awaited<'a, BatchEnd> = None;
        let mut asking: Awaited<'a, Result<Seen, BrokerError>> = None;
        let mut taking: Awaited<'a, Result<Option<LaneCursor>, BrokerError>> = None;
        let mut ask_after = BARRIER_ASK_MIN;
        let mut ask_at = Instant::now();
        let mut patrol = tokio::time::interval(bench.options.ack_wait / 3);
        let mut holding = bench.holding.subscribe();
        patrol.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        self.report(None);
        loop {
            if working.is_none() {
                working = self.next_work();
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
                    match cursor {
                        Ok(Some(cursor)) => self.taken_up(cursor),
                        Ok(None) => return TermEnd::StoreAway,
                        Err(error) => self.end(TermEnd::Broker(error), &mut feed),
                    }
                }
                () = tokio::time::sleep_until(ask_at), if asks => {
                    asking = Some(self.ask());
                }
                seen = poll_some(&mut asking) => {
                    asking = None;
                    match seen {
                        Ok(seen) => match self.look_at(&seen, working.is_some()) {
                            Some(Look::End(end)) => return end,
                            Some(Look::AllHere(taken)) => {
                                taking = Some(Box::pin(bench.take_up(taken)));
                            }
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
                        asking = Some(self.ask());
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

    /// Asks the server how the lane does.
    fn ask(&mut self) -> Pin<Box<dyn Future<Output = Result<Seen, BrokerError>> + Send + 'a>> {
        self.asked = self.barrier.asked();
        self.watch.ask();
        Box::pin(look(&self.bench.consumer, self.watch.is_counting()))
    }

    /// What is to be done next in stream order, if anything may be. While the barrier is up that is
    /// only what the cursor is past: it is decided, and repeats in any order.
    fn next_work(&mut self) -> Awaited<'a, BatchEnd> {
        let cursor = self.cursor?;
        let raised = self.barrier.is_raised();
        if let Some(lost) = self.watch.lost().filter(|_| !raised) {
            let mut to = cursor;
            if self.held.keys().next().is_none_or(|first| *first > lost.up_to) {
                to.decided_sequence = to.decided_sequence.max(lost.up_to);
            }
            self.losing = true;
            return Some(Box::pin(self.bench.lose(cursor, lost, to)));
        }
        let batch = self.take_batch(raised.then_some(cursor.decided_sequence));
        if batch.is_empty() {
            return None;
        }
        self.in_work.clone_from(&batch);
        Some(Box::pin(self.bench.work(cursor, batch)))
    }

    /// A batch has ended. Returns the end of the term, where that ends it too.
    fn worked(&mut self, end: BatchEnd) -> Option<TermEnd> {
        let settled = std::mem::take(&mut self.in_work);
        let reported = std::mem::take(&mut self.losing);
        let end = match end {
            BatchEnd::Settled { cursor } => {
                if reported {
                    self.watch.reported();
                }
                // Unless the barrier went up meanwhile: then it is read anew.
                if self.cursor.is_some() {
                    self.cursor = Some(cursor);
                }
                // A broker that forgot its deliveries in a crash made them again as if for the
                // first time; they are acknowledged all the same.
                for delivery in &settled {
                    self.held.remove(&delivery.message.sequence);
                }
                self.measure();
                return None;
            }
            BatchEnd::LaneLost => TermEnd::LaneLost,
            BatchEnd::StoreAway => TermEnd::StoreAway,
        };
        self.watch.let_go(settled.iter().map(|delivery| delivery.message.sequence));
        Some(end)
    }

    /// The lane's cursor was read; meanwhile the lane may have changed hands.
    fn taken_up(&mut self, cursor: LaneCursor) {
        if self.barrier.is_raised() || !self.owned {
            return;
        }
        self.cursor = Some(cursor);
        // What is decided may be acknowledged by whoever decided it, and so make up for what is
        // missing. It is settled first; of what is left, nothing can be.
        if self.held.keys().next().is_some_and(|first| *first <= cursor.decided_sequence) {
            self.barrier.doubt();
            return;
        }
        let held = |sequence: u64| self.held.contains_key(&sequence);
        if let Some(lost) = self.watch.taken_up(cursor.decided_sequence, held) {
            super::lost::note(self.health, lost);
        }
        self.report(None);
    }

    fn take_in(&mut self, delivery: Delivery) {
        self.watch.observe(&delivery);
        if let Some(raised) = self.barrier.observe(&delivery) {
            // Where the lane stands is read anew then, and whether it is still the same stream's:
            // its sequences are not to be taken for those that the cursor is past.
            self.cursor = None;
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
            self.held.insert(sequence, Arc::new(delivery));
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
    fn take_batch(&mut self, sequence_max: Option<u64>) -> Vec<Arc<Delivery>> {
        let options = &self.bench.options;
        let mut batch = Vec::new();
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
}
