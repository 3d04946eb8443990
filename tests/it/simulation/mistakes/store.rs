//! Mistakes about reads and records.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use wakegate::admission::Shadowed;
use wakegate::admission::decision::PriorOutcome;
use wakegate::admission::facts::{
    AgentStatus, CountedRuns, KeySightings, Pauses, QueuedRuns, Room, Scoped,
};
use wakegate::admission::limits::{Ceilings, Dimension, Limits};
use wakegate::store::{
    BatchRecord, CountWindow, LaneCursor, LaneKey, RecordError, Recorded, RoomClaim, RoomQuery,
    Store, StoreError,
};
use wakegate::wake::{AgentId, IdempotencyKey, OrganizationId, UtcMicros, Wake, WakeId};

use wakegate::store::memory::RunStatus;

use super::{Mistake, races};
use crate::simulation::acts::at_once;
use crate::simulation::database::away;
use crate::simulation::store::{SimStore, proof};

#[derive(Debug, Clone)]
pub struct MistakenStore {
    pub inner: SimStore,
    mistake: Option<Mistake>,
    memo: Arc<Mutex<Memo>>,
}

/// What the mistake keeps in mind.
#[derive(Debug, Default)]
struct Memo {
    agents: Option<HashMap<Scoped<AgentId>, AgentStatus>>,
    pauses: Option<Pauses>,
    lost: Option<BatchRecord>,
    cursor: Option<LaneCursor>,
    has_failed: bool,
}

impl MistakenStore {
    pub fn new(inner: SimStore, mistake: Option<Mistake>) -> Self {
        Self { inner, mistake, memo: Arc::default() }
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn memo<T>(&self, act: impl FnOnce(&mut Memo) -> T) -> T {
        act(&mut self.memo.lock().unwrap())
    }

    /// What failed once fails for ever, where that is the mistake.
    fn once<T>(&self, read: Result<T, StoreError>) -> Result<T, StoreError> {
        if !self.makes(Mistake::NeverAgain) {
            return read;
        }
        let failed = read.is_err();
        let has_failed = self.memo(|memo| {
            memo.has_failed |= failed;
            memo.has_failed
        });
        if has_failed { Err(away("a read")) } else { read }
    }

    /// Counts into a window what does not lie in it.
    fn count_beyond(&self, windows: &[CountWindow], counted: &mut CountedRuns) {
        let (no_upper, no_lower) =
            (self.makes(Mistake::NoUpperBound), self.makes(Mistake::NoLowerBound));
        for window in windows {
            let task = (window.organization_id.clone(), window.task_id.clone());
            for run in self.inner.memory().runs() {
                let of = (run.organization_id.clone(), run.payload.task().task().cloned());
                let beyond = if run.requested_at > window.at { no_upper } else { no_lower };
                let counts = run.reason.as_str() == "task_assigned"
                    && run.payload.is_agent_initiated()
                    && of == (task.0.clone(), Some(task.1.clone()))
                    && beyond;
                if counts {
                    counted.by_task.entry(task.clone()).or_default().insert((window.at, run.id));
                }
            }
        }
    }

    /// Counts what still waits, and forgets what a runner has taken.
    fn count_queued(&self, counted: &mut CountedRuns) {
        let runs = self.inner.memory().runs();
        let is_queued = |id| runs.iter().any(|run| run.id == id && run.status == RunStatus::Queued);
        for of_task in counted.by_task.values_mut() {
            of_task.retain(|(_, run)| is_queued(*run));
        }
    }

    /// As many runs as refuse.
    fn exhausted(windows: &[CountWindow]) -> CountedRuns {
        let made_up = |at: UtcMicros| {
            (1..=5).map(move |run| (at, WakeId::derive("made up", run, i128::from(run))))
        };
        let of = |window: &CountWindow| {
            let task = (window.organization_id.clone(), window.task_id.clone());
            (task, made_up(window.at).collect())
        };
        CountedRuns { by_task: windows.iter().map(of).collect() }
    }

    /// What the database is to be sent of a batch.
    fn sent(&self, batch: &BatchRecord) -> BatchRecord {
        let mut sent = batch.clone();
        match self.mistake {
            Some(Mistake::KeysForgotten) => sent.keys.clear(),
            Some(Mistake::MergeLeavesRun) => sent.merges.clear(),
            Some(Mistake::MergesForgotten) => sent.merged_wakes.clear(),
            Some(Mistake::RoomNotHeld) => sent.room = None,
            Some(Mistake::RoomHeldInShadow) => sent.room = Some(in_force(batch)),
            Some(Mistake::ShadowsForgotten) => sent.shadowed.clear(),
            Some(Mistake::NoFence) => {
                sent.from = at_once(self.inner.memory().lane_cursor(&batch.lane)).unwrap();
            }
            Some(Mistake::OnlyLosersAgain) => {
                if let Some(lost) = self.memo(|memo| memo.lost.take()) {
                    races::keep_winners(self.inner.memory(), &lost, &mut sent);
                }
            }
            _ => {}
        }
        sent
    }
}

/// What a batch claims, as if no gate were in shadow.
fn in_force(batch: &BatchRecord) -> RoomClaim {
    let max = batch.room.as_ref().map_or(u32::MAX, RoomClaim::platform_max);
    let ceilings = Ceilings::all(u32::MAX).with(Dimension::QueuedPlatform, max);
    let limits = Limits { ceilings, organizations: None };
    let mut claim = RoomClaim::new(&limits, true);
    for run in &batch.runs {
        claim.admit(&run.wake, &limits);
    }
    claim
}

impl Store for MistakenStore {
    async fn lane_cursor(&self, lane: &LaneKey) -> Result<LaneCursor, StoreError> {
        let cursor = self.once(self.inner.lane_cursor(lane).await)?;
        if !self.makes(Mistake::CursorLags) {
            return Ok(cursor);
        }
        Ok(self.memo(|memo| memo.cursor.replace(cursor)).unwrap_or(cursor))
    }

    async fn read_identity(
        &self,
        wakes: &[WakeId],
    ) -> Result<HashMap<WakeId, PriorOutcome>, StoreError> {
        let mut known = self.inner.read_identity(wakes).await?;
        if self.makes(Mistake::NoIdentity) {
            known.clear();
        }
        if self.makes(Mistake::RefusalRepeatedAnew) {
            for prior in known.values_mut() {
                if let PriorOutcome::Refused { record, .. } = prior {
                    let mut told: serde_json::Value = serde_json::from_str(record).unwrap();
                    told["decided_at"] = "now".into();
                    *record = told.to_string();
                }
            }
        }
        if self.makes(Mistake::RefusalsNotLookedUp) {
            known.retain(|_, prior| !matches!(prior, PriorOutcome::Refused { .. }));
        }
        Ok(known)
    }

    async fn read_shadowed(
        &self,
        wakes: &[WakeId],
    ) -> Result<HashMap<WakeId, Shadowed>, StoreError> {
        self.inner.read_shadowed(wakes).await
    }

    async fn read_agents(
        &self,
        agents: &[Scoped<AgentId>],
    ) -> Result<HashMap<Scoped<AgentId>, AgentStatus>, StoreError> {
        if self.makes(Mistake::StaleAfterHold)
            && let Some(known) = self.memo(|memo| memo.agents.clone())
        {
            return Ok(known);
        }
        let read = self.once(self.inner.read_agents(agents).await)?;
        self.memo(|memo| memo.agents = Some(read.clone()));
        Ok(read)
    }

    async fn read_pauses(&self, organizations: &[OrganizationId]) -> Result<Pauses, StoreError> {
        if self.makes(Mistake::StaleAfterHold)
            && let Some(known) = self.memo(|memo| memo.pauses.clone())
        {
            return Ok(known);
        }
        let read = match self.once(self.inner.read_pauses(organizations).await) {
            Err(_) if self.makes(Mistake::PauseFailsOpen) => Pauses::default(),
            read => read?,
        };
        self.memo(|memo| memo.pauses = Some(read.clone()));
        Ok(read)
    }

    async fn read_keys(
        &self,
        keys: &[Scoped<IdempotencyKey>],
    ) -> Result<HashMap<Scoped<IdempotencyKey>, KeySightings>, StoreError> {
        if !self.makes(Mistake::KeyNotScoped) {
            return self.inner.read_keys(keys).await;
        }
        let everybodys: Vec<_> = ["acme", ""]
            .iter()
            .map(|name| OrganizationId::parse(name).unwrap())
            .flat_map(|name| keys.iter().map(move |(_, key)| (name.clone(), key.clone())))
            .collect();
        let read = self.inner.read_keys(&everybodys).await?;
        let by_key: BTreeMap<_, _> =
            read.into_iter().map(|((_, key), seen)| (key.to_string(), seen)).collect();
        let seen =
            |key: &Scoped<IdempotencyKey>| Some((key.clone(), by_key.get(key.1.as_str())?.clone()));
        Ok(keys.iter().filter_map(seen).collect())
    }

    async fn read_queued(&self, wakes: &[&Wake]) -> Result<QueuedRuns, StoreError> {
        self.inner.read_queued(wakes).await
    }

    async fn read_counted(
        &self,
        windows: &[CountWindow],
        runs_max: u32,
    ) -> Result<CountedRuns, StoreError> {
        let mut counted = match self.inner.read_counted(windows, runs_max).await {
            Err(_) if self.makes(Mistake::CountFailsClosed) => Self::exhausted(windows),
            counted => counted?,
        };
        if self.makes(Mistake::NoUpperBound) || self.makes(Mistake::NoLowerBound) {
            self.count_beyond(windows, &mut counted);
        }
        if self.makes(Mistake::CountsOnlyQueued) {
            self.count_queued(&mut counted);
        }
        Ok(counted)
    }

    async fn read_room(&self, query: &RoomQuery) -> Result<Room, StoreError> {
        let room = self.inner.read_room(query).await?;
        if self.makes(Mistake::RoomUnseen) {
            return Ok(Room::default());
        }
        Ok(room)
    }

    async fn record(&self, batch: &BatchRecord) -> Result<Recorded, RecordError> {
        if self.makes(Mistake::AckBeforeCommit) {
            self.inner.commit_some_time(batch);
            return Ok(proof(batch).await);
        }
        let recorded = self.inner.record(&self.sent(batch)).await;
        self.memo(|memo| match &recorded {
            Ok(_) => {
                *memo = Memo { has_failed: memo.has_failed, cursor: memo.cursor, ..Memo::default() }
            }
            Err(RecordError::RaceLost { .. }) => memo.lost = Some(batch.clone()),
            Err(RecordError::Store(_)) => memo.has_failed = true,
            Err(RecordError::LaneLost | RecordError::RoomTaken { .. }) => {}
        });
        recorded
    }

    async fn begin_isolated(&self, lane: &LaneKey, wake: WakeId) -> Result<u32, StoreError> {
        self.inner.begin_isolated(lane, wake).await
    }

    async fn end_isolated(&self, wake: WakeId) -> Result<(), StoreError> {
        self.inner.end_isolated(wake).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.inner.ping().await
    }
}
