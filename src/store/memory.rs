//! The in-memory store, used in simulations; it passes the same contract suite as the real ones.
//!
//! Beyond the trait it shows what it holds, lets outsiders act on it as they would on the tables,
//! and fails on demand.

mod room;
mod state;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::state::State;
pub use self::state::{MemoryRun, RunStatus};
use super::{
    BatchRecord, CountWindow, LaneCursor, LaneKey, MergedWake, RecordError, Recorded, RefusedWake,
    RoomQuery, Store, StoreError,
};
use crate::admission::GateName;
use crate::admission::decision::PriorOutcome;
use crate::admission::facts::{
    AgentStatus, CountedRuns, KeySightings, Pauses, QueuedRuns, Room, Scoped,
};
use crate::admission::limits::OrganizationLimits;
use crate::wake::{AgentId, IdempotencyKey, OrganizationId, RunId, Wake, WakeId};

/// How a record fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordFailure {
    /// The database is away before anything is written.
    BeforeCommit,
    /// The batch is durable, and the answer is lost.
    ReplyLost,
}

/// A store in memory. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore(Arc<Mutex<Inside>>);

#[derive(Debug, Default)]
struct Inside {
    state: State,
    /// How many more times each read fails; `None` is until further notice.
    failing: HashMap<GateName, Option<u32>>,
    failing_records: Vec<RecordFailure>,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        // The state is changed only by statements that cannot panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A gate's read fails until [`MemoryStore::restore`].
    pub fn fail(&self, gate: GateName) {
        self.inside().failing.insert(gate, None);
    }

    /// A gate's read fails this many times.
    pub fn fail_times(&self, gate: GateName, times: u32) {
        self.inside().failing.insert(gate, Some(times));
    }

    /// A gate's read works again.
    pub fn restore(&self, gate: GateName) {
        self.inside().failing.remove(&gate);
    }

    /// The next records fail, in this order.
    pub fn fail_records(&self, failures: &[RecordFailure]) {
        self.inside().failing_records.extend(failures.iter().rev());
    }

    /// Every run, in order of id.
    #[must_use]
    pub fn runs(&self) -> Vec<MemoryRun> {
        self.inside().state.runs.values().cloned().collect()
    }

    /// Every merged wake, in order of the wake's id.
    #[must_use]
    pub fn merged_wakes(&self) -> Vec<MergedWake> {
        self.inside().state.merged.values().cloned().collect()
    }

    /// Every refused wake, in order of its id.
    #[must_use]
    pub fn refused_wakes(&self) -> Vec<RefusedWake> {
        self.inside().state.refused.values().cloned().collect()
    }

    /// Every key, with the run it was first seen with.
    #[must_use]
    pub fn keys(&self) -> BTreeMap<Scoped<IdempotencyKey>, RunId> {
        self.inside().state.keys.iter().map(|(key, (run_id, _))| (key.clone(), *run_id)).collect()
    }

    /// A row from outside, or in the place of one.
    pub fn put_run(&self, run: MemoryRun) {
        self.inside().state.put(run);
    }

    /// A runner, or an operator, changes a run's status. Answers whether there is such a run.
    #[must_use]
    pub fn set_status(&self, run_id: RunId, status: RunStatus) -> bool {
        let mut inside = self.inside();
        let run = inside.state.runs.get_mut(&run_id);
        run.map(|run| run.status = status).is_some()
    }

    /// An operator sets an agent's status.
    pub fn set_agent(&self, agent: Scoped<AgentId>, status: AgentStatus) {
        self.inside().state.agents.insert(agent, status);
    }

    /// An operator pauses an organization, or the platform (`None`).
    pub fn pause(&self, organization: Option<OrganizationId>, pause_id: &str) {
        self.inside().state.pauses.insert(organization, pause_id.to_owned());
    }

    /// An operator ends a pause.
    pub fn resume(&self, organization: Option<&OrganizationId>) {
        self.inside().state.pauses.remove(&organization.cloned());
    }

    /// An organization's limits are set.
    pub fn set_limits(&self, organization: OrganizationId, limits: OrganizationLimits) {
        self.inside().state.limits.insert(organization, limits);
    }

    /// Reads for a gate, unless that is to fail.
    fn read<T>(&self, gate: GateName, read: impl FnOnce(&State) -> T) -> Result<T, StoreError> {
        let mut inside = self.inside();
        match inside.failing.get_mut(&gate) {
            None | Some(Some(0)) => Ok(read(&inside.state)),
            Some(times) => {
                if let Some(times) = times {
                    *times -= 1;
                }
                Err(StoreError::Unavailable {
                    error: format!("the read for gate {} was made to fail", gate.as_str()),
                })
            }
        }
    }
}

impl Store for MemoryStore {
    async fn lane_cursor(&self, lane: &LaneKey) -> Result<LaneCursor, StoreError> {
        Ok(self.inside().state.lane_cursor(lane))
    }

    async fn read_identity(
        &self,
        wakes: &[WakeId],
    ) -> Result<HashMap<WakeId, PriorOutcome>, StoreError> {
        self.read(GateName::Identity, |state| state.identity(wakes))
    }

    async fn read_agents(
        &self,
        agents: &[Scoped<AgentId>],
    ) -> Result<HashMap<Scoped<AgentId>, AgentStatus>, StoreError> {
        self.read(GateName::AgentStatus, |state| {
            let known = |agent| Some((Clone::clone(agent), *state.agents.get(agent)?));
            agents.iter().filter_map(known).collect()
        })
    }

    async fn read_pauses(&self, organizations: &[OrganizationId]) -> Result<Pauses, StoreError> {
        self.read(GateName::Pause, |state| state.pauses_of(organizations))
    }

    async fn read_keys(
        &self,
        keys: &[Scoped<IdempotencyKey>],
    ) -> Result<HashMap<Scoped<IdempotencyKey>, KeySightings>, StoreError> {
        self.read(GateName::Duplicate, |state| state.sightings(keys))
    }

    async fn read_queued(&self, wakes: &[&Wake]) -> Result<QueuedRuns, StoreError> {
        self.read(GateName::Coalesce, |state| state.queued(wakes))
    }

    async fn read_counted(
        &self,
        windows: &[CountWindow],
        runs_max: u32,
    ) -> Result<CountedRuns, StoreError> {
        self.read(GateName::Allowance, |state| state.counted(windows, runs_max))
    }

    async fn read_room(&self, query: &RoomQuery) -> Result<Room, StoreError> {
        self.read(GateName::Capacity, |state| state.room(query))
    }

    async fn record(&self, batch: &BatchRecord) -> Result<Recorded, RecordError> {
        let mut inside = self.inside();
        let failure = inside.failing_records.pop();
        if failure == Some(RecordFailure::BeforeCommit) {
            let error = "the record was made to fail".to_owned();
            return Err(StoreError::Unavailable { error }.into());
        }
        inside.state.record(batch)?;
        if failure == Some(RecordFailure::ReplyLost) {
            let error = "the answer to the commit was made to be lost".to_owned();
            return Err(StoreError::Unavailable { error }.into());
        }
        Ok(Recorded::after_commit(batch.covers.clone()))
    }

    async fn begin_isolated(&self, _lane: &LaneKey, wake: WakeId) -> Result<u32, StoreError> {
        let mut inside = self.inside();
        let attempts = inside.state.isolated.entry(wake).or_insert(0);
        *attempts += 1;
        Ok(*attempts - 1)
    }

    async fn end_isolated(&self, wake: WakeId) -> Result<(), StoreError> {
        let mut inside = self.inside();
        if let Some(attempts) = inside.state.isolated.get_mut(&wake) {
            *attempts -= 1;
            if *attempts == 0 {
                inside.state.isolated.remove(&wake);
            }
        }
        Ok(())
    }

    async fn ping(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
