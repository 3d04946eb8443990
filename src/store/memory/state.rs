//! The tables of the in-memory store, and what the statements of the real ones do to them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use super::super::sightings::{Sighting, see};
use super::super::{
    BatchRecord, CountWindow, LaneCursor, LaneKey, MergedWake, NewRun, RecordError, RefusedWake,
    fault,
};
use crate::admission::Shadowed;
use crate::admission::decision::{DegradedReason, PriorOutcome};
use crate::admission::facts::{
    AgentStatus, CountedRuns, KeySightings, MergeBucket, Pauses, QueuedRuns, Scoped,
};
use crate::admission::intake::Admitted;
use crate::admission::limits::OrganizationLimits;
use crate::admission::{ALLOWANCE_WINDOW, COALESCE_WINDOW};
use crate::wake::producer::ProducerClass;
use crate::wake::{
    AgentId, IdempotencyKey, OrganizationId, Payload, Producer, ProjectId, Reason, RunId,
    TASK_ASSIGNED, TaskField, TaskId, UtcMicros, Wake, WakeId,
};

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunStatus {
    /// Waits for a runner, and may take wakes in.
    Queued,
    /// A runner has taken it.
    Claimed,
    /// A runner works on it.
    Running,
    /// Ended well.
    Succeeded,
    /// Ended ill.
    Failed,
    /// Was taken back.
    Cancelled,
    /// Waited too long.
    Expired,
    /// Ran too long.
    TimedOut,
    /// Reached a limit.
    LimitExceeded,
}

impl RunStatus {
    /// Every status.
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::Claimed,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::Expired,
        Self::TimedOut,
        Self::LimitExceeded,
    ];

    /// As the column says it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Claimed => "claimed",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::TimedOut => "timed_out",
            Self::LimitExceeded => "limit_exceeded",
        }
    }
}

/// A row of `runs`. What the other stores keep in columns of its own is read from the payload here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryRun {
    /// The run.
    pub id: RunId,
    /// The tenant.
    pub organization_id: OrganizationId,
    /// The project.
    pub project_id: Option<ProjectId>,
    /// The agent to run.
    pub agent_profile_id: AgentId,
    /// Why.
    pub reason: Reason,
    /// Where it stands.
    pub status: RunStatus,
    /// What the runner reads.
    pub payload: Payload,
    /// Key of the wake that created it.
    pub idempotency_key: Option<IdempotencyKey>,
    /// 1, and one more for each wake that joined it.
    pub coalesced_count: u32,
    /// Where a gate could not do its work.
    pub degraded: Option<DegradedReason>,
    /// Producer of the wake that created it.
    pub producer: Producer,
    /// Trace context of the wake that created it.
    pub traceparent: Option<Arc<str>>,
    /// Request instant of the wake that created it.
    pub requested_at: UtcMicros,
    /// When it was decided.
    pub decided_at: UtcMicros,
    /// When it has waited too long, if ever.
    pub expires_at: Option<UtcMicros>,
}

impl From<&NewRun> for MemoryRun {
    fn from(run: &NewRun) -> Self {
        let wake = &run.wake;
        Self {
            id: wake.id,
            organization_id: wake.organization_id.clone(),
            project_id: wake.project_id.clone(),
            agent_profile_id: wake.agent_profile_id.clone(),
            reason: wake.reason.clone(),
            status: RunStatus::Queued,
            payload: run.payload.clone(),
            idempotency_key: wake.occurrence.key().cloned(),
            coalesced_count: run.coalesced_count,
            degraded: run.degraded,
            producer: wake.producer.clone(),
            traceparent: wake.traceparent.clone(),
            requested_at: wake.requested_at,
            decided_at: run.decided_at,
            expires_at: run.expires_at,
        }
    }
}

impl MemoryRun {
    fn takes_in(&self, bucket: &MergeBucket) -> bool {
        self.status == RunStatus::Queued
            && *self.payload.task() != TaskField::Unusable
            && self.agent_profile_id == bucket.agent_profile_id
            && self.reason == bucket.reason
            && !self.idempotency_key.as_ref().is_some_and(IdempotencyKey::is_comment)
    }

    fn counts(&self) -> bool {
        self.reason.as_str() == TASK_ASSIGNED && self.payload.is_agent_initiated()
    }
}

/// Runs of a task, or of none, oldest first.
type RunsByInstant = BTreeSet<(UtcMicros, RunId)>;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) runs: BTreeMap<RunId, MemoryRun>,
    by_task: HashMap<Scoped<Option<TaskId>>, RunsByInstant>,
    pub(super) merged: BTreeMap<WakeId, MergedWake>,
    pub(super) refused: BTreeMap<WakeId, RefusedWake>,
    pub(super) shadowed: BTreeMap<WakeId, Shadowed>,
    pub(super) keys: BTreeMap<Scoped<IdempotencyKey>, (RunId, UtcMicros)>,
    pub(super) agents: HashMap<Scoped<AgentId>, AgentStatus>,
    pub(super) pauses: HashMap<Option<OrganizationId>, String>,
    lanes: HashMap<(Arc<str>, u32), (UtcMicros, LaneCursor)>,
    pub(super) isolated: HashMap<WakeId, u32>,
    pub(super) limits: HashMap<OrganizationId, OrganizationLimits>,
    pub(super) intake: HashMap<Scoped<ProducerClass>, Admitted>,
}

impl State {
    pub(super) fn put(&mut self, run: MemoryRun) {
        let task =
            |run: &MemoryRun| (run.organization_id.clone(), run.payload.task().task().cloned());
        let at = |run: &MemoryRun| (run.requested_at, run.id);
        self.by_task.entry(task(&run)).or_default().insert(at(&run));
        let (now_task, now_at) = (task(&run), at(&run));
        if let Some(old) = self.runs.insert(run.id, run)
            && (task(&old), at(&old)) != (now_task, now_at)
        {
            self.by_task.entry(task(&old)).or_default().remove(&at(&old));
        }
    }

    pub(super) fn lane_cursor(&mut self, lane: &LaneKey) -> LaneCursor {
        let start = (lane.stream_created_at, LaneCursor::default());
        let held = self.lanes.entry((Arc::clone(&lane.stream), lane.lane)).or_insert(start);
        if held.0 != lane.stream_created_at {
            let known_sequence = held.1.known_sequence.max(held.1.decided_sequence);
            *held = (lane.stream_created_at, LaneCursor { known_sequence, ..start.1 });
        }
        held.1
    }

    pub(super) fn identity(&self, wakes: &[WakeId]) -> HashMap<WakeId, PriorOutcome> {
        let prior = |wake: &WakeId| {
            if let Some(run) = self.runs.get(wake) {
                return Some(PriorOutcome::Queued {
                    degraded: run.degraded,
                    requested_at: run.requested_at,
                    decided_at: run.decided_at,
                });
            }
            if let Some(merged) = self.merged.get(wake) {
                return Some(PriorOutcome::Coalesced {
                    run_id: merged.run_id,
                    requested_at: merged.wake.requested_at,
                    decided_at: merged.decided_at,
                });
            }
            self.refused.get(wake).map(|refused| PriorOutcome::Refused {
                reason: refused.reason.to_owned(),
                record: refused.record.clone(),
            })
        };
        wakes.iter().filter_map(|wake| Some((*wake, prior(wake)?))).collect()
    }

    pub(super) fn pauses_of(&self, organizations: &[OrganizationId]) -> Pauses {
        let active = |organization: &OrganizationId| {
            let pause = self.pauses.get(&Some(organization.clone()))?;
            Some((organization.clone(), pause.clone()))
        };
        Pauses {
            platform: self.pauses.get(&None).cloned(),
            organizations: organizations.iter().filter_map(active).collect(),
        }
    }

    pub(super) fn sightings(
        &self,
        keys: &[Scoped<IdempotencyKey>],
    ) -> HashMap<Scoped<IdempotencyKey>, KeySightings> {
        let mut seen = HashMap::new();
        for key in keys {
            let Some(&(run_id, at)) = self.keys.get(key) else { continue };
            see(&mut seen, key, &Sighting { first: true, run_id, at });
        }
        for merged in self.merged.values() {
            let Some(key) = merged.wake.occurrence.key() else { continue };
            let key = (merged.wake.organization_id.clone(), key.clone());
            if seen.contains_key(&key) {
                let (run_id, at) = (merged.run_id, merged.wake.requested_at);
                see(&mut seen, &key, &Sighting { first: false, run_id, at });
            }
        }
        seen
    }

    /// Runs of a task, or of none, within `(after, until]`, newest first.
    fn newest_first(
        &self,
        organization: &OrganizationId,
        task: Option<&TaskId>,
        after: UtcMicros,
        until: UtcMicros,
    ) -> impl Iterator<Item = &MemoryRun> {
        let window = (
            Bound::Excluded((after, RunId::from(uuid::Uuid::max()))),
            Bound::Included((until, RunId::from(uuid::Uuid::max()))),
        );
        self.by_task
            .get(&(organization.clone(), task.cloned()))
            .into_iter()
            .flat_map(move |runs| runs.range(window).rev())
            .filter_map(|(_, id)| self.runs.get(id))
    }

    pub(super) fn queued(&self, wakes: &[&Wake]) -> QueuedRuns {
        let mut queued = QueuedRuns::default();
        for wake in wakes {
            let Some(bucket) = MergeBucket::of(wake) else { continue };
            let (task, until) = (bucket.task_id.as_ref(), wake.requested_at);
            let newest = self
                .newest_first(&bucket.organization_id, task, until - COALESCE_WINDOW, until)
                .find(|run| run.takes_in(&bucket));
            if let Some(run) = newest {
                let actor_type = run.payload.actor_type().cloned();
                queued.add(bucket, run.requested_at, run.id, actor_type);
            }
        }
        queued
    }

    pub(super) fn counted(&self, windows: &[CountWindow], runs_max: u32) -> CountedRuns {
        let mut counted = CountedRuns::default();
        for window in windows {
            let (organization, task) = (&window.organization_id, &window.task_id);
            let newest: Vec<_> = self
                .newest_first(organization, Some(task), window.at - ALLOWANCE_WINDOW, window.at)
                .filter(|run| run.counts())
                .take(runs_max as usize)
                .map(|run| (run.requested_at, run.id))
                .collect();
            if !newest.is_empty() {
                let task = (organization.clone(), task.clone());
                counted.by_task.entry(task).or_default().extend(newest);
            }
        }
        counted
    }

    /// Checks all of a batch, then does all of it: nothing of it is visible otherwise.
    pub(super) fn record(&mut self, batch: &BatchRecord) -> Result<(), RecordError> {
        let lane = (Arc::clone(&batch.lane.stream), batch.lane.lane);
        let at_fence = self.lanes.get(&lane).is_some_and(|(created_at, cursor)| {
            *created_at == batch.lane.stream_created_at
                && cursor.decided_sequence == batch.from.decided_sequence
        });
        if !at_fence {
            return Err(RecordError::LaneLost);
        }
        self.check(batch)?;
        self.lanes.insert(lane, (batch.lane.stream_created_at, batch.to));
        for key in &batch.keys {
            let name = (key.organization_id.clone(), key.idempotency_key.clone());
            self.keys.insert(name, (key.run_id, key.requested_at));
        }
        for run in &batch.runs {
            self.put(MemoryRun::from(run));
        }
        for admitted in batch.room.iter().flat_map(super::super::RoomClaim::admitted) {
            let producer = (admitted.organization_id.clone(), admitted.producer);
            self.intake.entry(producer).or_default().add(admitted.slot, admitted.wakes);
        }
        for merge in &batch.merges {
            if let Some(mut run) = self.runs.get(&merge.run_id).cloned() {
                run.payload = merge.payload.clone();
                run.coalesced_count += merge.joined;
                self.put(run);
            }
        }
        self.merged.extend(batch.merged_wakes.iter().map(|wake| (wake.wake.id, wake.clone())));
        self.refused.extend(batch.refusals.iter().map(|wake| (wake.wake.id, wake.clone())));
        self.shadowed.extend(batch.shadowed.iter().map(|wake| {
            let reasons = wake.reasons.iter().map(|reason| (*reason).to_owned()).collect();
            (wake.wake.id, Shadowed { reasons, record: wake.record.clone() })
        }));
        Ok(())
    }

    /// In the order of the real stores, so that all name the same race.
    fn check(&self, batch: &BatchRecord) -> Result<(), RecordError> {
        let fits = |count: u32| i32::try_from(count).is_ok_and(|count| count >= 1);
        let refused = |what| RecordError::Store(fault::too_large(what));
        if i64::try_from(batch.to.decided_sequence).is_err() {
            return Err(refused("a sequence of the stream"));
        }
        let mut taken: BTreeSet<_> = BTreeSet::new();
        for key in &batch.keys {
            let name = (key.organization_id.clone(), key.idempotency_key.clone());
            if self.keys.contains_key(&name) || !taken.insert(name) {
                return Err(RecordError::RaceLost { what: "a key" });
            }
        }
        for merge in &batch.merges {
            let run = self.runs.get(&merge.run_id);
            match run.filter(|run| run.status == RunStatus::Queued) {
                None => return Err(RecordError::RaceLost { what: "a run that was queued" }),
                Some(run) if !fits(run.coalesced_count.saturating_add(merge.joined)) => {
                    return Err(refused("a count of merged wakes"));
                }
                Some(_) => {}
            }
        }
        if batch.merged_wakes.iter().any(|wake| self.merged.contains_key(&wake.wake.id)) {
            return Err(RecordError::RaceLost { what: "the id of a merged wake" });
        }
        if batch.refusals.iter().any(|wake| self.refused.contains_key(&wake.wake.id)) {
            return Err(RecordError::RaceLost { what: "the id of a refused wake" });
        }
        if batch.shadowed.iter().any(|wake| self.shadowed.contains_key(&wake.wake.id)) {
            return Err(RecordError::RaceLost { what: "the id of a shadowed wake" });
        }
        let mut ids: BTreeSet<_> = BTreeSet::new();
        for run in &batch.runs {
            if !fits(run.coalesced_count) {
                return Err(refused("a count of merged wakes"));
            }
            if self.runs.contains_key(&run.wake.id) || !ids.insert(run.wake.id) {
                return Err(RecordError::RaceLost { what: "the id of a run" });
            }
        }
        if let Some(claim) = &batch.room {
            let mut room = self.room(&claim.query());
            batch.runs.iter().for_each(|run| room.admit(&run.wake));
            if let Some(boundary) = claim.exceeded(&room) {
                return Err(RecordError::RoomTaken { boundary });
            }
        }
        Ok(())
    }
}
