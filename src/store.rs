//! The store: what was decided, and everything the gates read.
//!
//! One trait of set-based methods, one implementation per dialect, one contract suite over all of
//! them. A [`Recorded`] is the proof that a batch is durable; only this module makes one.

pub mod control;
mod distinct;
pub mod facts;
mod fault;
pub mod history;
mod lease;
pub mod limits;
pub mod memory;
mod migrations;
mod options;
pub mod postgres;
pub mod prune;
pub mod queue;
pub mod redrive;
mod room;
pub mod runners;
mod schema;
mod sightings;
pub mod sqlite;

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use self::facts::{FactsAnswer, FactsQuery};
pub use self::options::{StoreOptions, UrlError};
pub use self::room::{AdmittedSlot, IntakeSpan, RoomClaim, RoomQuery, Sparing};
pub use self::schema::{MigrateError, SchemaState};
use crate::admission::Shadowed;
use crate::admission::decision::{DegradedReason, PriorOutcome};
use crate::admission::facts::{
    AgentStatus, CountedRuns, KeySightings, Pauses, QueuedRuns, Room, Scoped,
};
use crate::admission::limits::Dimension;
use crate::wake::{
    AgentId, IdempotencyKey, OrganizationId, Payload, RunId, TaskId, UtcMicros, Wake, WakeId,
};

/// Which lane, of which incarnation of which stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LaneKey {
    /// Name of the stream.
    pub stream: Arc<str>,
    /// When the stream was created; a recreated stream counts its sequences from 1 again.
    pub stream_created_at: UtcMicros,
    /// Number of the lane, from 0.
    pub lane: u32,
}

/// How far a lane has been decided: the fence that every batch moves by compare-and-set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneCursor {
    /// Everything of the lane up to here has been decided.
    pub decided_sequence: u64,
    /// The latest request instant decided; instants of a lane do not run backwards.
    pub decided_instant: UtcMicros,
    /// Rows may be there for wakes up to this sequence although the lane has not decided that far:
    /// a stream that is restored is created anew and issues its sequences again.
    pub known_sequence: u64,
}

impl LaneCursor {
    /// Whether a wake can have been decided before. The cursor moves in the transaction that writes
    /// the rows, so beyond it and beyond what is known of an earlier stream there are none.
    #[must_use]
    pub const fn may_have_decided(&self, sequence: u64) -> bool {
        sequence <= self.decided_sequence || sequence <= self.known_sequence
    }
}

/// A window of one wake for the allowance's read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CountWindow {
    /// The tenant.
    pub organization_id: OrganizationId,
    /// The task.
    pub task_id: TaskId,
    /// Evaluation instant `t`; the window is `(t − W, t]`.
    pub at: UtcMicros,
}

/// What one batch writes, in one transaction.
#[derive(Debug, Clone)]
pub struct BatchRecord {
    /// The lane.
    pub lane: LaneKey,
    /// The cursor the decisions were made at; the fence.
    pub from: LaneCursor,
    /// The cursor after the batch.
    pub to: LaneCursor,
    /// Runs to insert.
    pub runs: Vec<NewRun>,
    /// Queued runs to update, at most one entry a run.
    pub merges: Vec<MergedRun>,
    /// Wakes that joined a run, of this batch or older.
    pub merged_wakes: Vec<MergedWake>,
    /// Keys not seen before, to be taken.
    pub keys: Vec<NewKey>,
    /// Refusals to put on record.
    pub refusals: Vec<RefusedWake>,
    /// What gates in shadow would have refused, to put on record.
    pub shadowed: Vec<ShadowedWake>,
    /// The room that the runs take, where there are ceilings.
    pub room: Option<RoomClaim>,
    /// Every wake that the record decides, those that write nothing included.
    pub covers: Vec<WakeId>,
}

impl BatchRecord {
    /// A record that moves the fence and writes nothing yet.
    #[must_use]
    pub fn new(lane: &LaneKey, from: LaneCursor, to: LaneCursor) -> Self {
        Self {
            lane: lane.clone(),
            from,
            to,
            runs: Vec::new(),
            merges: Vec::new(),
            merged_wakes: Vec::new(),
            keys: Vec::new(),
            refusals: Vec::new(),
            shadowed: Vec::new(),
            room: None,
            covers: Vec::new(),
        }
    }

    /// Whether anything but the fence is written.
    fn writes_rows(&self) -> bool {
        !(self.runs.is_empty()
            && self.merges.is_empty()
            && self.merged_wakes.is_empty()
            && self.keys.is_empty()
            && self.refusals.is_empty()
            && self.shadowed.is_empty())
    }

    /// Whether the fence is to be moved by compare-and-set. A batch that neither moves nor writes
    /// anything only looks at it: what it covers was read from committed rows, and a lane that is
    /// lost proves nothing.
    fn moves_or_writes(&self) -> bool {
        self.from != self.to || self.writes_rows()
    }
}

/// A row of `runs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    /// The wake that is admitted; the run takes its id.
    pub wake: Arc<Wake>,
    /// The payload the runner will read: the wake's own, or that of the last wake of this batch
    /// that joined it.
    pub payload: Payload,
    /// 1, and one more for each wake of this batch that joined it.
    pub coalesced_count: u32,
    /// Where a gate could not do its work.
    pub degraded: Option<DegradedReason>,
    /// When it was decided.
    pub decided_at: UtcMicros,
    /// When it has waited too long, if ever.
    pub expires_at: Option<UtcMicros>,
}

/// An update of a queued run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedRun {
    /// The run.
    pub run_id: RunId,
    /// Payload of the last wake that joined it.
    pub payload: Payload,
    /// Wakes of this batch that joined it.
    pub joined: u32,
}

/// A row of `merged_wakes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedWake {
    /// The wake that joined.
    pub wake: Arc<Wake>,
    /// The run it joined.
    pub run_id: RunId,
    /// When it was decided.
    pub decided_at: UtcMicros,
}

/// A row of `wake_keys`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// The tenant.
    pub organization_id: OrganizationId,
    /// The key.
    pub idempotency_key: IdempotencyKey,
    /// The run it was first seen with.
    pub run_id: RunId,
    /// The request instant of the wake that carried it.
    pub requested_at: UtcMicros,
}

/// A row of `refused_wakes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedWake {
    /// The wake.
    pub wake: Arc<Wake>,
    /// The reason, of a closed set.
    pub reason: &'static str,
    /// The outcome record, JSON.
    pub record: String,
}

/// A row of `shadowed_wakes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShadowedWake {
    /// The wake.
    pub wake: Arc<Wake>,
    /// What gates in shadow would have refused it for, of a closed set, in the order of the gates.
    pub reasons: Vec<&'static str>,
    /// The outcome record, JSON.
    pub record: String,
}

/// Proof that a batch is durable, naming the wakes it covers. Only a store makes one.
#[derive(Debug)]
pub struct Recorded {
    covers: Vec<WakeId>,
}

impl Recorded {
    /// To be called by a store, after its commit was answered.
    fn after_commit(covers: Vec<WakeId>) -> Self {
        Self { covers }
    }

    /// The wakes covered.
    #[must_use]
    pub fn covers(&self) -> &[WakeId] {
        &self.covers
    }
}

/// Why a store could not answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Retry later: the server is away, busy, full, read-only, or too slow. The lane holds.
    #[error("the database is unavailable: {error}")]
    Unavailable {
        /// The cause chain in one line, free of control characters and secrets.
        error: String,
    },
    /// Set aside: something in this very request cannot be stored (SQLSTATE 22, 54, unexpected
    /// 23). The batch is halved until the wake at fault is alone.
    #[error("the database refuses the data: {error}")]
    Data {
        /// The cause chain in one line, free of control characters and secrets.
        error: String,
    },
}

/// Why a batch was not recorded. Nothing of it is durable.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Another worker has moved the lane's fence: drop the batch and take the lane up anew.
    #[error("the lane has moved on: another worker owns it")]
    LaneLost,
    /// Something else got there first: decide the whole batch again from fresh facts.
    #[error("lost a race: {what}")]
    RaceLost {
        /// What was taken, for the log.
        what: &'static str,
    },
    /// The room that was seen when the batch was decided is taken: decide it again at once. Who took
    /// it has come further by it, so somebody always does.
    #[error("the room is taken: {}", boundary.as_str())]
    RoomTaken {
        /// What would have been exceeded.
        boundary: Dimension,
    },
    /// See [`StoreError`].
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Where decisions are kept. Every method has its own deadline and never waits longer.
pub trait Store: Clone + Send + Sync + 'static {
    /// The lane's cursor, created at the start of the stream if the lane is new, or put back to the
    /// start if the stream was created anew since.
    fn lane_cursor(
        &self,
        lane: &LaneKey,
    ) -> impl Future<Output = Result<LaneCursor, StoreError>> + Send;

    /// Gate 0: what became of these wakes earlier ([`PriorOutcome::Deduplicated`] is derived by
    /// the gate, never read).
    fn read_identity(
        &self,
        wakes: &[WakeId],
    ) -> impl Future<Output = Result<HashMap<WakeId, PriorOutcome>, StoreError>> + Send;

    /// Gate 0: of which of these wakes it is on record that gates in shadow would have refused them.
    fn read_shadowed(
        &self,
        wakes: &[WakeId],
    ) -> impl Future<Output = Result<HashMap<WakeId, Shadowed>, StoreError>> + Send;

    /// Gate 1: the status of those agents that have one.
    fn read_agents(
        &self,
        agents: &[Scoped<AgentId>],
    ) -> impl Future<Output = Result<HashMap<Scoped<AgentId>, AgentStatus>, StoreError>> + Send;

    /// Gate 2: the platform's active pause and those of these organizations.
    fn read_pauses(
        &self,
        organizations: &[OrganizationId],
    ) -> impl Future<Output = Result<Pauses, StoreError>> + Send;

    /// Gates 3 and 7: where these keys have been seen, at any age.
    fn read_keys(
        &self,
        keys: &[Scoped<IdempotencyKey>],
    ) -> impl Future<Output = Result<HashMap<Scoped<IdempotencyKey>, KeySightings>, StoreError>> + Send;

    /// Gate 4: for each wake that may merge, the newest queued run of its bucket with a request
    /// instant in `(t − 5 s, t]` whose key is no comment's and whose own `task_id` is usable.
    fn read_queued(
        &self,
        wakes: &[&Wake],
    ) -> impl Future<Output = Result<QueuedRuns, StoreError>> + Send;

    /// Gate 5: for each window, its newest counted runs, at most `runs_max` a window.
    fn read_counted(
        &self,
        windows: &[CountWindow],
        runs_max: u32,
    ) -> impl Future<Output = Result<CountedRuns, StoreError>> + Send;

    /// Gate 6: how full it is where wakes would go, and what the organizations there have lowered.
    fn read_room(&self, query: &RoomQuery)
    -> impl Future<Output = Result<Room, StoreError>> + Send;

    /// What gates 1 to 7 ask, in one go. None where the store has no such read, where something of gate 0
    /// is asked too, or where it failed: each read alone tells then which gate that is.
    fn read_facts(
        &self,
        _asked: &FactsQuery<'_>,
    ) -> impl Future<Output = Option<FactsAnswer>> + Send {
        std::future::ready(None)
    }

    /// Writes a batch in one transaction, or nothing of it.
    fn record(
        &self,
        batch: &BatchRecord,
    ) -> impl Future<Output = Result<Recorded, RecordError>> + Send;

    /// Notes that an attempt at this wake alone begins, and says how many earlier attempts ended
    /// with the process.
    fn begin_isolated(
        &self,
        lane: &LaneKey,
        wake: WakeId,
    ) -> impl Future<Output = Result<u32, StoreError>> + Send;

    /// Takes back the note of [`Store::begin_isolated`]: the attempt ended, and not with the
    /// process.
    fn end_isolated(&self, wake: WakeId) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Whether the database answers and holds the schema that this program knows.
    fn ping(&self) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// A store that has a schema: a database, not a fake.
pub trait Database: Store {
    /// Which schema the database holds.
    fn schema_state(&self) -> impl Future<Output = Result<SchemaState, StoreError>> + Send;

    /// Brings the schema up to the one this program knows. Two processes may do so at once: the
    /// second waits for the first and finds nothing left to do.
    fn migrate(&self) -> impl Future<Output = Result<(), MigrateError>> + Send;
}
