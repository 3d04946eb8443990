//! PostgreSQL asked twice: each read alone, and in the one statement that asks for all facts of a batch.
//! What the one says the other has to say, whatever a test puts into the database.

use std::collections::HashMap;
use std::fmt::Debug;

use wakegate::admission::Shadowed;
use wakegate::admission::decision::PriorOutcome;
use wakegate::admission::facts::{
    AgentStatus, CountedRuns, KeySightings, MergeBucket, Pauses, QueuedRuns, Room, Scoped,
};
use wakegate::store::facts::{FactsAnswer, FactsQuery};
use wakegate::store::postgres::PostgresStore;
use wakegate::store::{
    BatchRecord, CountWindow, LaneCursor, LaneKey, RecordError, Recorded, RoomQuery, Store,
    StoreError,
};
use wakegate::wake::{AgentId, IdempotencyKey, OrganizationId, Wake, WakeId};

#[derive(Debug, Clone)]
pub struct Agreeing(pub PostgresStore);

impl Agreeing {
    /// Others write meanwhile in some tests: what changed between two answers is asked again.
    async fn both<T: PartialEq + Debug, F: Future<Output = Result<T, StoreError>>>(
        &self,
        alone: impl Fn() -> F,
        asked: FactsQuery<'_>,
        of: impl Fn(FactsAnswer) -> T,
    ) -> Result<T, StoreError> {
        loop {
            let before = alone().await?;
            let together = self.0.read_facts(&asked).await.map(&of);
            let Ok(after) = alone().await else { return Ok(before) };
            if before != after {
                continue;
            }
            // None is a database in which the read of another gate fails.
            if let Some(together) = together {
                assert_eq!(together, before, "{asked:?}");
            }
            return Ok(before);
        }
    }
}

impl Store for Agreeing {
    async fn lane_cursor(&self, lane: &LaneKey) -> Result<LaneCursor, StoreError> {
        self.0.lane_cursor(lane).await
    }

    async fn read_identity(
        &self,
        wakes: &[WakeId],
    ) -> Result<HashMap<WakeId, PriorOutcome>, StoreError> {
        self.0.read_identity(wakes).await
    }

    async fn read_shadowed(
        &self,
        wakes: &[WakeId],
    ) -> Result<HashMap<WakeId, Shadowed>, StoreError> {
        self.0.read_shadowed(wakes).await
    }

    async fn read_agents(
        &self,
        agents: &[Scoped<AgentId>],
    ) -> Result<HashMap<Scoped<AgentId>, AgentStatus>, StoreError> {
        let asked = FactsQuery { agents: agents.to_vec(), ..FactsQuery::default() };
        self.both(|| self.0.read_agents(agents), asked, |all| all.agents).await
    }

    async fn read_pauses(&self, organizations: &[OrganizationId]) -> Result<Pauses, StoreError> {
        let asked = FactsQuery { organizations: organizations.to_vec(), ..FactsQuery::default() };
        self.both(|| self.0.read_pauses(organizations), asked, |all| all.pauses).await
    }

    async fn read_keys(
        &self,
        keys: &[Scoped<IdempotencyKey>],
    ) -> Result<HashMap<Scoped<IdempotencyKey>, KeySightings>, StoreError> {
        let asked = FactsQuery { keys: keys.to_vec(), ..FactsQuery::default() };
        self.both(|| self.0.read_keys(keys), asked, |all| all.keys).await
    }

    /// With those that name a task: for the others it is never asked together.
    async fn read_queued(&self, wakes: &[&Wake]) -> Result<QueuedRuns, StoreError> {
        let asked = FactsQuery { merging: wakes.to_vec(), ..FactsQuery::default() };
        let mut buckets = wakes.iter().filter_map(|wake| MergeBucket::of(wake));
        if buckets.any(|bucket| bucket.task_id.is_none()) {
            assert!(self.0.read_facts(&asked).await.is_none(), "{asked:?}");
            return self.0.read_queued(wakes).await;
        }
        self.both(|| self.0.read_queued(wakes), asked, |all| all.queued).await
    }

    async fn read_counted(
        &self,
        windows: &[CountWindow],
        runs_max: u32,
    ) -> Result<CountedRuns, StoreError> {
        let asked = FactsQuery { windows: windows.to_vec(), runs_max, ..FactsQuery::default() };
        let alone = || self.0.read_counted(windows, runs_max);
        self.both(alone, asked, |all| all.counted).await
    }

    /// But for how fast it drains, which is told by a clock that goes on.
    async fn read_room(&self, query: &RoomQuery) -> Result<Room, StoreError> {
        let asked = FactsQuery { room: query.clone(), ..FactsQuery::default() };
        let still = |mut room: Room| {
            room.drains.clear();
            room
        };
        let alone = || async { self.0.read_room(query).await.map(still) };
        self.both(alone, asked, |all| still(all.room)).await?;
        self.0.read_room(query).await
    }

    async fn read_facts(&self, asked: &FactsQuery<'_>) -> Option<FactsAnswer> {
        self.0.read_facts(asked).await
    }

    async fn record(&self, batch: &BatchRecord) -> Result<Recorded, RecordError> {
        self.0.record(batch).await
    }

    async fn begin_isolated(&self, lane: &LaneKey, wake: WakeId) -> Result<u32, StoreError> {
        self.0.begin_isolated(lane, wake).await
    }

    async fn end_isolated(&self, wake: WakeId) -> Result<(), StoreError> {
        self.0.end_isolated(wake).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.0.ping().await
    }
}
