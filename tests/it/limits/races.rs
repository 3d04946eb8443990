//! A batch that loses every race is not tried for ever as one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use wakegate::admission::decision::PriorOutcome;
use wakegate::admission::facts::{
    AgentStatus, CountedRuns, KeySightings, Pauses, QueuedRuns, Scoped,
};
use wakegate::lane::process::RACE_ROUNDS_MAX;
use wakegate::store::{
    BatchRecord, CountWindow, LaneCursor, LaneKey, RecordError, Recorded, Store, StoreError,
};
use wakegate::wake::{AgentId, IdempotencyKey, OrganizationId, Wake, WakeId};

use crate::harness::case;
use crate::harness::world::{T0, World, brief, mutation};

/// A real store on which every record of more than one wake loses a race.
#[derive(Clone)]
struct LosesRaces<S> {
    store: S,
    /// Wakes of each record, in order.
    tried: Arc<Mutex<Vec<usize>>>,
}

impl<S: Store> Store for LosesRaces<S> {
    async fn lane_cursor(&self, lane: &LaneKey) -> Result<LaneCursor, StoreError> {
        self.store.lane_cursor(lane).await
    }

    async fn read_identity(
        &self,
        wakes: &[WakeId],
    ) -> Result<HashMap<WakeId, PriorOutcome>, StoreError> {
        self.store.read_identity(wakes).await
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
        self.store.read_counted(windows, runs_max).await
    }

    async fn record(&self, batch: &BatchRecord) -> Result<Recorded, RecordError> {
        let wakes = batch.covers.len();
        self.tried.lock().unwrap().push(wakes);
        if wakes > 1 {
            return Err(RecordError::RaceLost { what: "the test" });
        }
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

#[tokio::test]
async fn after_so_many_lost_races_the_wakes_of_a_batch_go_one_by_one() {
    const WAKES: usize = 4;
    let case = case::sqlite().await;
    let tried = Arc::default();
    let store = LosesRaces { store: case.world.bench.store.clone(), tried: Arc::clone(&tried) };
    let mut world = World::on_lane(store, 1).await;
    let events: Vec<_> =
        (0..WAKES).map(|nth| mutation(T0, &format!("t{nth}"), "", "a1", Value::from(1))).collect();
    let records = Box::pin(world.batch(&events)).await;
    assert!(records.iter().all(|record| brief(record) == "queued"), "{records:?}");
    let tried = tried.lock().unwrap().clone();
    let rounds = RACE_ROUNDS_MAX as usize;
    assert_eq!(tried[..rounds], vec![WAKES; rounds], "as one, so many times");
    assert_eq!(tried[rounds], 1, "and then alone: {tried:?}");
    assert_eq!(tried.iter().filter(|wakes| **wakes == 1).count(), WAKES);
}
