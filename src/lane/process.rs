//! One batch, from deliveries to acknowledgements: decode, facts, decide, record, audit, settle.
//!
//! A step that fails for want of a server holds: it waits with backoff and starts again at the
//! facts, never from a stale decision. What is at fault costs only itself: a batch that the
//! database refuses is halved until the wake at fault is alone, and that wake is rejected.

use std::sync::Arc;

use tokio::time::Instant;

use super::facts::{Asking, load};
use super::hold::Delays;
use super::instant::request_instant;
use super::record::{By, Outcome, draft};
use super::work::{Work, prefix, refine};
use super::{Holding, LaneOptions, report};
use crate::admission::engine::Hold;
use crate::admission::limits::Dimension;
use crate::admission::{GateName, Shadows, decide_batch};
use crate::audit::{AuditEvent, AuditLog, Audited};
use crate::clock::Clock;
use crate::intake::{Delivery, LaneConsumer, Verdict};
use crate::metrics::{HoldCause, Metrics, Stage};
use crate::outcome::OutcomeKind;
use crate::queue::work::Work as Signal;
use crate::store::{LaneCursor, LaneKey, RecordError, Recorded, Store, StoreError};
use crate::traces::{BatchTrace, Tracer};
use crate::wake::decode::{BODY_BYTES_MAX, Event, decode_within};

/// After this many lost races the wakes of a batch go one per transaction.
pub const RACE_ROUNDS_MAX: u32 = 3;
/// After the room was taken this often before a batch could be written, it is taken for a race.
pub const ROOM_ROUNDS_MAX: u32 = 32;
/// From this delivery on a message is worked alone.
pub const ISOLATED_DELIVERIES_MIN: u64 = 3;

/// How a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchEnd {
    /// Every delivery is settled.
    Settled {
        /// The lane's cursor now.
        cursor: LaneCursor,
    },
    /// Another worker owns the lane: nothing of what is left may be acknowledged.
    LaneLost,
    /// The store stayed away for too long: give the lane up.
    StoreAway,
}

/// What a batch is worked with.
#[derive(Debug, Clone)]
pub struct Bench<S, A, C> {
    /// Where decisions are kept.
    pub store: S,
    /// Where operators learn of them.
    pub audit: A,
    /// Where deliveries come from and are acknowledged.
    pub consumer: C,
    /// What is counted.
    pub metrics: Metrics,
    /// Stamps `decided_at`.
    pub clock: Clock,
    /// What this worker is called where it says that it was full.
    pub component: Arc<str>,
    /// The lane.
    pub lane: LaneKey,
    /// Limits.
    pub options: LaneOptions,
    /// Which gates only say what they would refuse.
    pub shadows: Shadows,
    /// Makes the spans of a batch.
    pub tracer: Tracer,
    /// What the lane waits for, if it holds.
    pub holding: tokio::sync::watch::Sender<Option<Holding>>,
    /// Where it is announced that runs were queued.
    pub queue: Signal,
}

/// What came of one try at the first wakes of a batch.
enum Attempt {
    /// The first events are durable; the rest may have to wait.
    Recorded { recorded: Recorded, outcomes: Vec<Outcome>, cursor: LaneCursor, held: Option<Hold> },
    /// Nothing is durable: a gate could not answer.
    Held(Hold),
    /// Nothing is durable: decide again.
    RaceLost(&'static str),
    /// Nothing is durable: somebody else has the room.
    RoomTaken(Dimension),
    /// Nothing is durable: something in it cannot be stored.
    Data(String),
    /// The store is away, or took too long: this may be durable after all.
    Unavailable { to: LaneCursor, error: String },
    /// Nothing is durable, and nothing of it is ours any more.
    LaneLost,
}

impl<S: Store, A: AuditLog, C: LaneConsumer> Bench<S, A, C> {
    /// Works deliveries in stream order until each is settled, or the lane is not ours.
    pub async fn work(&self, cursor: LaneCursor, batch: Vec<Arc<Delivery>>) -> BatchEnd {
        match batch.as_slice() {
            [one] if one.deliveries >= ISOLATED_DELIVERIES_MIN => {
                self.work_alone(cursor, one.wake_id(), batch).await
            }
            _ => self.settle_all(cursor, self.decode(cursor, batch), self.delays()).await,
        }
    }

    pub(super) fn delays(&self) -> Delays {
        Delays::of(&self.options)
    }

    pub(super) fn decode(&self, cursor: LaneCursor, batch: Vec<Arc<Delivery>>) -> Vec<Work> {
        let started = Instant::now();
        let mut last = cursor.decided_instant;
        let mut works = Vec::with_capacity(batch.len());
        for delivery in batch {
            let mut requested_at = delivery.message.requested_at;
            // What the cursor is past is a redelivery: it keeps its own instant, and tells nothing
            // of the broker's clock.
            if delivery.message.sequence > cursor.decided_sequence {
                let instant = request_instant(last, requested_at);
                if instant < last {
                    tracing::warn!(
                        lane = self.lane.lane,
                        stream_sequence = delivery.message.sequence,
                        seconds_back = last.since(instant).as_secs(),
                        "the broker's clock was set back"
                    );
                }
                requested_at = instant;
                last = instant;
            }
            let bytes_max = self.body_bytes_max(cursor, delivery.message.sequence);
            let event = decode_within(&delivery.message, requested_at, bytes_max);
            works.push(Work { delivery, event });
        }
        self.metrics.batch_wakes(works.len());
        self.metrics.batch_stage(Stage::Decode, started.elapsed());
        works
    }

    /// What may have been decided before is read whatever its size, for it keeps its outcome.
    fn body_bytes_max(&self, cursor: LaneCursor, sequence: u64) -> usize {
        match &self.options.ceilings {
            Some(ceilings) if !cursor.may_have_decided(sequence) => {
                ceilings.of(Dimension::EventBytes) as usize
            }
            _ => BODY_BYTES_MAX,
        }
    }

    pub(super) fn asking(&self, doubtful: bool) -> Asking {
        Asking { doubtful, ceilings: self.options.ceilings, told: false }
    }

    /// Works what is decoded, and traces it.
    pub(super) async fn settle_all(
        &self,
        cursor: LaneCursor,
        works: Vec<Work>,
        delays: Delays,
    ) -> BatchEnd {
        let mut trace = self.tracer.batch(self.lane.lane, works.len(), &self.clock);
        let end = self.settle_each(cursor, works, delays, &mut trace).await;
        if let Some(mut trace) = trace {
            trace.ended(end, &self.clock);
        }
        end
    }

    /// The one loop that retries: what is left is tried at some width until nothing is left.
    async fn settle_each(
        &self,
        mut cursor: LaneCursor,
        mut works: Vec<Work>,
        mut delays: Delays,
        trace: &mut Option<BatchTrace>,
    ) -> BatchEnd {
        let mut width = works.len();
        let (mut races_lost, mut rooms_taken) = (0, 0);
        while !works.is_empty() {
            let take = width.clamp(1, works.len());
            let wait_for = match self.attempt(cursor, &works[..take], races_lost > 0).await {
                Attempt::Recorded { recorded, mut outcomes, cursor: moved, held } => {
                    let settled: Vec<Work> = works.drain(..outcomes.len()).collect();
                    let events: Vec<_> =
                        outcomes.iter_mut().flat_map(Outcome::take_audit).collect();
                    let audited = self.audit(recorded, &events).await;
                    self.settle(&settled, &outcomes, &audited, trace).await;
                    cursor = moved;
                    width = width.saturating_mul(2);
                    (races_lost, rooms_taken) = (0, 0);
                    delays.reset();
                    self.resume();
                    held.map(|hold| hold.failure.to_string())
                }
                Attempt::Held(hold) => Some(hold.failure.to_string()),
                Attempt::Unavailable { to, error } => {
                    if !self.hold(HoldCause::Store, &error, &mut delays).await {
                        return BatchEnd::StoreAway;
                    }
                    match self.look_again(cursor, to, &mut delays).await {
                        Ok(stands) => cursor = stands,
                        Err(end) => return end,
                    }
                    None
                }
                Attempt::RaceLost(what) => {
                    races_lost += 1;
                    tracing::debug!(lane = self.lane.lane, what, races_lost, "decided again");
                    if races_lost == RACE_ROUNDS_MAX {
                        width = 1;
                    }
                    (races_lost > RACE_ROUNDS_MAX).then(|| format!("lost a race: {what}"))
                }
                Attempt::RoomTaken(boundary) => {
                    rooms_taken += 1;
                    self.metrics.room_taken();
                    let boundary = boundary.as_str();
                    tracing::debug!(lane = self.lane.lane, boundary, rooms_taken, "decided again");
                    // Each time somebody else has come further, unless who reads and who writes
                    // disagree: then it must not become a loop without a pause.
                    (rooms_taken > ROOM_ROUNDS_MAX).then(|| format!("lost the room: {boundary}"))
                }
                Attempt::Data(error) => refine(&mut works, &mut width, take, error),
                Attempt::LaneLost => return BatchEnd::LaneLost,
            };
            if let Some(reason) = wait_for
                && !self.hold(HoldCause::Store, &reason, &mut delays).await
            {
                return BatchEnd::StoreAway;
            }
        }
        BatchEnd::Settled { cursor }
    }

    pub(super) fn resume(&self) {
        self.holding.send_if_modified(|holding| holding.take().is_some());
    }

    /// Facts, decide, record, once.
    async fn attempt(&self, cursor: LaneCursor, works: &[Work], doubtful: bool) -> Attempt {
        let started = Instant::now();
        let wakes: Vec<_> = works.iter().filter_map(Work::wake).collect();
        let mut loaded = load(&self.store, cursor, &wakes, self.asking(doubtful)).await;
        self.metrics.batch_stage(Stage::Facts, started.elapsed());
        for gate in &loaded.failed {
            self.metrics.gate_error(*gate);
        }
        if let Some(error) = loaded.data_fault {
            return Attempt::Data(error);
        }

        let started = Instant::now();
        let mut decided = decide_batch(&mut loaded.facts, &wakes, self.shadows);
        let count = prefix(works, decided.decisions.len());
        if count == 0
            && let Some(hold) = decided.held
        {
            return Attempt::Held(hold);
        }
        let held = decided.held.take();
        let events: Vec<&Event> = works[..count].iter().map(|work| &work.event).collect();
        let limits = loaded.facts.limits();
        let enforced = !self.shadows.has(GateName::Capacity);
        let by = By { component: &self.component, at: self.clock.now(), limits, enforced };
        let (record, outcomes) = draft(&self.lane, cursor, &events, decided, loaded.shadowed, &by);
        self.metrics.batch_stage(Stage::Decide, started.elapsed());

        let started = Instant::now();
        let recorded = self.store.record(&record).await;
        self.metrics.batch_stage(Stage::Record, started.elapsed());
        match recorded {
            Ok(recorded) => {
                if !record.runs.is_empty() {
                    self.queue.announce();
                }
                Attempt::Recorded { recorded, outcomes, cursor: record.to, held }
            }
            Err(RecordError::LaneLost) => Attempt::LaneLost,
            Err(RecordError::RaceLost { what }) => Attempt::RaceLost(what),
            Err(RecordError::RoomTaken { boundary }) => Attempt::RoomTaken(boundary),
            Err(RecordError::Store(StoreError::Data { error })) => Attempt::Data(error),
            Err(RecordError::Store(error @ StoreError::Unavailable { .. })) => {
                Attempt::Unavailable { to: record.to, error: error.to_string() }
            }
        }
    }

    /// Where the lane stands after a record without an answer: where it stood, or where the record
    /// would have moved it, in which case gate 0 knows its wakes. Anything else is another worker's.
    async fn look_again(
        &self,
        from: LaneCursor,
        to: LaneCursor,
        delays: &mut Delays,
    ) -> Result<LaneCursor, BatchEnd> {
        loop {
            match self.store.lane_cursor(&self.lane).await {
                Ok(stands) if stands == from || stands == to => return Ok(stands),
                Ok(_) => return Err(BatchEnd::LaneLost),
                Err(error) => {
                    if !self.hold(HoldCause::Store, &error.to_string(), delays).await {
                        return Err(BatchEnd::StoreAway);
                    }
                }
            }
        }
    }

    /// Publishes until the stream has everything; the decisions are durable and cannot go stale.
    pub(super) async fn audit(&self, mut recorded: Recorded, events: &[AuditEvent]) -> Audited {
        let started = Instant::now();
        let mut delays = self.delays();
        loop {
            match self.audit.publish(recorded, events).await {
                Ok(audited) => {
                    self.resume();
                    self.metrics.batch_stage(Stage::Audit, started.elapsed());
                    return audited;
                }
                Err((unaudited, error)) => {
                    self.metrics.audit_publish_failed();
                    self.hold(HoldCause::Audit, &error.to_string(), &mut delays).await;
                    recorded = unaudited;
                }
            }
        }
    }

    /// Acknowledges by proof, tells whoever asked, and counts what is new.
    async fn settle(
        &self,
        works: &[Work],
        outcomes: &[Outcome],
        audited: &Audited,
        trace: &mut Option<BatchTrace>,
    ) {
        let started = Instant::now();
        let mut permits = audited.permits();
        let mut report = report::Report::new(&self.metrics, self.clock.now());
        for (work, outcome) in works.iter().zip(outcomes) {
            let Some(permit) = permits.remove(&work.event.envelope.id) else { continue };
            let verdict = match outcome.kind {
                OutcomeKind::Rejected => Verdict::Terminate,
                _ => Verdict::Done,
            };
            if let Err(error) = self.consumer.acknowledge(&work.delivery, verdict, permit).await {
                tracing::debug!(%error, "an acknowledgement was not sent; it will be delivered again");
            }
            if let (Some(subject), Some(record)) =
                (&work.event.envelope.outcome_to, &outcome.record)
            {
                self.consumer.tell(subject, record.clone()).await;
            }
            report.settled(&work.event, outcome);
            if let Some(trace) = trace {
                trace.settled(&work.event, outcome, &self.clock);
            }
        }
        self.metrics.batch_stage(Stage::Settle, started.elapsed());
    }

    /// Waits before the next attempt. False when the store has been away for too long.
    pub(super) async fn hold(&self, cause: HoldCause, reason: &str, delays: &mut Delays) -> bool {
        let delay = delays.next_delay();
        let held_for = delays.held_for();
        if self.holding.borrow().is_none() {
            self.metrics.lane_hold(cause);
            tracing::warn!(lane = self.lane.lane, cause = cause.as_str(), reason, "the lane holds");
        }
        self.holding.send_replace(Some(Holding { cause, reason: reason.to_owned() }));
        if cause == HoldCause::Store && held_for >= self.options.store_away_give_up {
            tracing::warn!(
                lane = self.lane.lane,
                reason,
                "the store stays away: giving the lane up"
            );
            return false;
        }
        tokio::time::sleep(delay).await;
        true
    }
}
