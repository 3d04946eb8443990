//! What the gates may know: the world as it was read once for a batch, plus what the batch itself
//! has decided so far.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use super::decision::PriorOutcome;
use super::gates::GateName;
use super::intake::{Admitted, Slot};
use super::limits::{Ceilings, Limits, OrganizationLimits};
use crate::wake::producer::ProducerClass;
use crate::wake::{
    ActorType, AgentId, IdempotencyKey, OrganizationId, ProjectId, Reason, RunId, TaskField,
    TaskId, UtcMicros, Wake, WakeId,
};

/// A fact, or why it could not be read. A failed read is a value: the gate's posture says what it
/// means.
pub type Fact<T> = Result<T, ReadFailure>;

/// Why a fact could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadFailure {
    /// The gate whose read failed.
    pub gate: GateName,
    /// The error and its causes, in one line.
    pub error: String,
}

impl fmt::Display for ReadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the read for gate {} failed: {}", self.gate.as_str(), self.error)
    }
}

/// An id within its organization.
pub type Scoped<T> = (OrganizationId, T);

/// Everything read for one batch. Each field that can fail alone is a [`Fact`] of its own.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Everything of the lane up to this sequence has been decided.
    pub decided_sequence: u64,
    /// What became of the batch's own wakes at an earlier delivery.
    pub identity: Fact<HashMap<WakeId, PriorOutcome>>,
    /// Status of the agents named; an agent without a row is absent.
    pub agents: Fact<HashMap<Scoped<AgentId>, AgentStatus>>,
    /// Active pauses.
    pub pauses: Fact<Pauses>,
    /// Where the keys named have been seen.
    pub keys: Fact<HashMap<Scoped<IdempotencyKey>, KeySightings>>,
    /// Queued runs that a wake of the batch could join.
    pub queued: Fact<QueuedRuns>,
    /// Runs that count against the allowance of the tasks named.
    pub counted: Fact<CountedRuns>,
    /// The platform's ceilings. Without any, gate 6 is not asked: a worker has them unless it was
    /// told in development to do without.
    pub ceilings: Option<Ceilings>,
    /// How full it is where the batch's wakes would go.
    pub room: Fact<Room>,
}

impl Facts {
    /// Both layers of limits, where there are ceilings.
    #[must_use]
    pub fn limits(&self) -> Option<Limits<'_>> {
        let organizations = self.room.as_ref().ok().map(|room| &room.limits);
        self.ceilings.map(|ceilings| Limits { ceilings, organizations })
    }
}

/// Operator state of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AgentStatus {
    /// May run.
    Idle,
    /// May run.
    Working,
    /// Refused.
    Paused,
    /// Refused.
    Stopped,
    /// Refused.
    PendingApproval,
}

impl AgentStatus {
    /// Every status.
    pub const ALL: [Self; 5] =
        [Self::Idle, Self::Working, Self::Paused, Self::Stopped, Self::PendingApproval];

    /// As the column says it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Working => "working",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::PendingApproval => "pending_approval",
        }
    }

    /// The status with this name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// Active pauses, by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pauses {
    /// The platform's.
    pub platform: Option<String>,
    /// Those of the organizations named.
    pub organizations: HashMap<OrganizationId, String>,
}

/// Where one key has been seen: the run that holds it, and every later merge that carried it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySightings {
    /// The run that the key was first seen with.
    pub run_id: RunId,
    /// Each instant at which it was seen, with the run it met. Holds at least the first.
    pub seen: Vec<(UtcMicros, RunId)>,
}

/// Which queued runs may take a wake in: same organization, agent, reason and task bucket.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MergeBucket {
    /// The tenant.
    pub organization_id: OrganizationId,
    /// The agent.
    pub agent_profile_id: AgentId,
    /// The reason.
    pub reason: Reason,
    /// The task, or `None` for the bucket "no task".
    pub task_id: Option<TaskId>,
}

impl MergeBucket {
    /// The bucket a wake would merge in, or `None` where it never merges: a `task_id` that is
    /// present but no usable string, or a comment's key.
    #[must_use]
    pub fn of(wake: &Wake) -> Option<Self> {
        if wake.occurrence.key().is_some_and(IdempotencyKey::is_comment) {
            return None;
        }
        let task_id = match wake.payload.task() {
            TaskField::Named(task) => Some(task.clone()),
            TaskField::Absent => None,
            TaskField::Unusable => return None,
        };
        Some(Self {
            organization_id: wake.organization_id.clone(),
            agent_profile_id: wake.agent_profile_id.clone(),
            reason: wake.reason.clone(),
            task_id,
        })
    }
}

/// Queued runs by bucket. The order of the inner map, by instant and then id, is the order in
/// which gate 4 prefers them: the greatest wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueuedRuns {
    /// The candidates of each bucket.
    pub by_bucket: HashMap<MergeBucket, BTreeMap<(UtcMicros, RunId), QueuedRun>>,
}

impl QueuedRuns {
    /// Adds a run with its actor type, requested at this instant.
    pub fn add(
        &mut self,
        bucket: MergeBucket,
        requested_at: UtcMicros,
        run_id: RunId,
        actor_type: Option<ActorType>,
    ) {
        let runs = self.by_bucket.entry(bucket).or_default();
        runs.insert((requested_at, run_id), QueuedRun { actor_type });
    }
}

/// A queued run as gate 4 sees it. Runs keyed by a comment are never among the facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedRun {
    /// Its actor type now: a merge may change what the allowance counts.
    pub actor_type: Option<ActorType>,
}

/// The runs that count against a task's allowance: reason `task_assigned`, actor type `agent`,
/// whatever their status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CountedRuns {
    /// Of each task, its counted runs ordered by instant and then id.
    pub by_task: HashMap<Scoped<TaskId>, BTreeSet<(UtcMicros, RunId)>>,
}

/// How full it is where wakes would go, and what the organizations there have lowered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Room {
    /// Queued runs of all organizations.
    pub queued_platform: u64,
    /// Queued runs of an organization; one that is absent has none.
    pub queued_organizations: HashMap<OrganizationId, u64>,
    /// Queued runs of a project; one that is absent has none.
    pub queued_projects: HashMap<Scoped<ProjectId>, u64>,
    /// Limits that organizations have set.
    pub limits: HashMap<OrganizationId, OrganizationLimits>,
    /// Wakes admitted around the instants asked about.
    pub intake: HashMap<Scoped<ProducerClass>, Admitted>,
    /// How fast queues drain, of the platform (`None`) and of organizations, where runs left them.
    pub drains: HashMap<Option<OrganizationId>, Drain>,
}

/// Fewer runs than this tell no rate.
pub const DRAIN_RUNS_MIN: u32 = 3;

/// How fast runs have lately left a queue, by whatever way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// Runs that left.
    pub runs: u32,
    /// In so many milliseconds, at least one.
    pub millis: u64,
}

impl Drain {
    /// Of what a database says: nothing where too little has left to tell a rate by.
    #[must_use]
    pub fn of(runs: i64, millis: i64) -> Option<Self> {
        let runs = u32::try_from(runs).ok().filter(|runs| *runs >= DRAIN_RUNS_MIN)?;
        Some(Self { runs, millis: u64::try_from(millis).ok().filter(|millis| *millis > 0)? })
    }
}

impl Room {
    /// A run more, of this wake.
    pub fn admit(&mut self, wake: &Wake) {
        self.queued_platform += 1;
        *self.queued_organizations.entry(wake.organization_id.clone()).or_default() += 1;
        if let Some(project) = &wake.project_id {
            let project = (wake.organization_id.clone(), project.clone());
            *self.queued_projects.entry(project).or_default() += 1;
        }
        let producer = (wake.organization_id.clone(), wake.producer.class());
        self.intake.entry(producer).or_default().add(Slot::of(wake.requested_at), 1);
    }
}
