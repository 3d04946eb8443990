//! A real store that fails where a test wants it to.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use wakegate::admission::Shadowed;
use wakegate::admission::decision::PriorOutcome;
use wakegate::admission::facts::{
    AgentStatus, CountedRuns, KeySightings, Pauses, QueuedRuns, Room, Scoped,
};
use wakegate::store::{
    BatchRecord, CountWindow, LaneCursor, LaneKey, RecordError, Recorded, RoomQuery, Store,
    StoreError,
};
use wakegate::wake::{AgentId, IdempotencyKey, OrganizationId, Wake, WakeId};

/// What goes wrong before a call reaches the store; by default nothing.
pub trait Faults: Send + Sync + 'static {
    /// Before counted runs are read.
    fn counting(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Before a batch is recorded.
    fn recording(&self, _batch: &BatchRecord) -> Result<(), RecordError> {
        Ok(())
    }
}

/// A store that passes everything through, with these faults.
pub struct Flaky<S, F> {
    store: S,
    pub faults: Arc<F>,
}

impl<S, F: Default> Flaky<S, F> {
    pub fn new(store: S) -> Self {
        Self { store, faults: Arc::default() }
    }
}

impl<S: Clone, F> Clone for Flaky<S, F> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), faults: Arc::clone(&self.faults) }
    }
}

/// The first read of counted runs fails, as a blip on its connection would have it.
#[derive(Default)]
pub struct FailsOnce {
    counted_reads: AtomicU32,
}

impl FailsOnce {
    /// How often the count was read, the failed one included.
    pub fn counted_reads(&self) -> u32 {
        self.counted_reads.load(Ordering::SeqCst)
    }
}

impl Faults for FailsOnce {
    fn counting(&self) -> Result<(), StoreError> {
        if self.counted_reads.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err(StoreError::Unavailable { error: "connection reset".to_owned() });
        }
        Ok(())
    }
}

impl<S: Store, F: Faults> Store for Flaky<S, F> {
    async fn lane_cursor(&self, lane: &LaneKey) -> Result<LaneCursor, StoreError> {
        self.store.lane_cursor(lane).await
    }

    async fn read_identity(
        &self,
        wakes: &[WakeId],
    ) -> Result<HashMap<WakeId, PriorOutcome>, StoreError> {
        self.store.read_identity(wakes).await
    }

    async fn read_shadowed(
        &self,
        wakes: &[WakeId],
    ) -> Result<HashMap<WakeId, Shadowed>, StoreError> {
        self.store.read_shadowed(wakes).await
    }

    async fn read_agents(
        &self,
        agents: &[Scoped<AgentId>],
    ) -> Result<HashMap<Scoped<AgentId>, AgentStatus>, StoreError> {
        self.store.read_agents(agents).await
    }

    async fn read_pauses(&self, organizations: &[OrganizationId]) -> Result<Pauses, StoreError> {
        self.store.read_pauses(organizations).await
    }

    async fn read_keys(
        &self,
        keys: &[Scoped<IdempotencyKey>],
    ) -> Result<HashMap<Scoped<IdempotencyKey>, KeySightings>, StoreError> {
        self.store.read_keys(keys).await
    }

    async fn read_queued(&self, wakes: &[&Wake]) -> Result<QueuedRuns, StoreError> {
        self.store.read_queued(wakes).await
    }

    async fn read_counted(
        &self,
        windows: &[CountWindow],
        runs_max: u32,
    ) -> Result<CountedRuns, StoreError> {
        self.faults.counting()?;
        self.store.read_counted(windows, runs_max).await
    }

    async fn read_room(&self, query: &RoomQuery) -> Result<Room, StoreError> {
        self.store.read_room(query).await
    }

    async fn record(&self, batch: &BatchRecord) -> Result<Recorded, RecordError> {
        self.faults.recording(batch)?;
        self.store.record(batch).await
    }

    async fn begin_isolated(&self, lane: &LaneKey, wake: WakeId) -> Result<u32, StoreError> {
        self.store.begin_isolated(lane, wake).await
    }

    async fn end_isolated(&self, wake: WakeId) -> Result<(), StoreError> {
        self.store.end_isolated(wake).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.store.ping().await
    }
}
