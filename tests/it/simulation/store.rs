//! The store in memory, behind a network that fails, stalls and loses replies.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

use tokio::sync::oneshot;
use wakegate::admission::GateName;
use wakegate::admission::Shadowed;
use wakegate::admission::decision::PriorOutcome;
use wakegate::admission::facts::{
    AgentStatus, CountedRuns, KeySightings, Pauses, QueuedRuns, Room, Scoped,
};
use wakegate::store::memory::MemoryStore;
use wakegate::store::{
    BatchRecord, CountWindow, LaneCursor, LaneKey, RecordError, Recorded, RoomQuery, Store,
    StoreError,
};
use wakegate::wake::{AgentId, IdempotencyKey, OrganizationId, Wake, WakeId};

use super::database::{Outcome, READ_MS_MAX, away};
use super::oracle::Moment;
use super::worker::{Me, Point};
use super::world::World;

/// What the reads of one attempt at a batch said, as far as others can change it.
#[derive(Debug, Clone, Default)]
pub struct Attempt {
    pub agents: BTreeMap<(String, String), Option<&'static str>>,
    /// The pause of each scope that was asked about; that of no organization is the platform's.
    pub pauses: BTreeMap<Option<String>, Option<String>>,
    /// When queued runs were read.
    pub queued_at: Option<Moment>,
    /// When keys were read.
    pub keys_at: Option<Moment>,
    pub counts_failed: u32,
    /// Runs that were queued when it was read how full it is.
    pub queued: Option<u64>,
}

#[derive(Debug, Clone)]
pub struct SimStore {
    pub world: World,
    pub me: Me,
    memory: MemoryStore,
}

impl SimStore {
    pub fn new(world: World, me: Me) -> Self {
        let memory = world.with(|inside| inside.memory.clone());
        Self { world, me, memory }
    }

    pub fn memory(&self) -> &MemoryStore {
        &self.memory
    }

    /// A commit that nobody waits for, and that does not happen if the process ends before.
    pub fn commit_some_time(&self, batch: &BatchRecord) {
        let (me, batch) = (self.me, batch.clone());
        self.world.with(|inside| {
            let attempt = inside.attempts.remove(&(me.worker, me.lane)).unwrap_or_default();
            inside.after(20, move |inside| {
                if inside.is_alive(me) {
                    let _ = inside.commit(me, &batch, &attempt);
                }
            });
        });
    }

    async fn read<T: Debug>(
        &self,
        name: &'static str,
        gate: Option<GateName>,
        read: impl Future<Output = Result<T, StoreError>>,
        seen: impl FnOnce(&mut Attempt, &T, Moment),
    ) -> Result<T, StoreError> {
        self.world.pass(self.me, Point::Before(name)).await;
        let fate = self.world.with(|inside| inside.fate(READ_MS_MAX, gate));
        self.world.lag(self.me, fate.before).await;
        let moment = self.world.with(|inside| inside.oracle.moment());
        let read = match fate.outcome {
            Outcome::Answered => read.await,
            _ => Err(away(name)),
        };
        self.world.lag(self.me, fate.after).await;
        self.world.pass(self.me, Point::After(name)).await;
        self.world.with(|inside| {
            let attempt = inside.attempts.entry((self.me.worker, self.me.lane)).or_default();
            match &read {
                Ok(read) => seen(attempt, read, moment),
                Err(_) if gate == Some(GateName::Allowance) => attempt.counts_failed += 1,
                Err(_) => {}
            }
            // What was read is a map, whose order is nobody's.
            let answered = if read.is_ok() { "is answered" } else { "has no answer" };
            inside.note(|| format!("{}: {name} {answered}", self.me));
        });
        read
    }

    /// A note of an attempt at a wake alone, or its end.
    async fn isolated<T: Debug>(
        &self,
        name: &'static str,
        wake: WakeId,
        write: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.world.pass(self.me, Point::Before(name)).await;
        let fate = self.world.with(|inside| inside.fate(READ_MS_MAX, None));
        self.world.lag(self.me, fate.before).await;
        let mut written = None;
        if fate.outcome != Outcome::Failed {
            written = Some(write.await);
        }
        self.world.with(|inside| {
            let unanswered = fate.outcome != Outcome::Answered;
            inside.isolated(self.me, wake, name == "begin_isolated", written.is_some(), unanswered);
            inside.note(|| format!("{} {name} {wake}: {written:?}", self.me));
        });
        self.world.lag(self.me, fate.after).await;
        self.world.pass(self.me, Point::After(name)).await;
        match (fate.outcome, written) {
            (Outcome::Answered, Some(written)) => written,
            _ => Err(away(name)),
        }
    }
}

impl Store for SimStore {
    async fn lane_cursor(&self, lane: &LaneKey) -> Result<LaneCursor, StoreError> {
        self.read("lane_cursor", None, self.memory.lane_cursor(lane), |_, _, _| ()).await
    }

    async fn read_identity(
        &self,
        wakes: &[WakeId],
    ) -> Result<HashMap<WakeId, PriorOutcome>, StoreError> {
        let read = self.memory.read_identity(wakes);
        self.read("read_identity", Some(GateName::Identity), read, |_, _, _| ()).await
    }

    async fn read_shadowed(
        &self,
        wakes: &[WakeId],
    ) -> Result<HashMap<WakeId, Shadowed>, StoreError> {
        let read = self.memory.read_shadowed(wakes);
        self.read("read_shadowed", Some(GateName::Identity), read, |_, _, _| ()).await
    }

    async fn read_agents(
        &self,
        agents: &[Scoped<AgentId>],
    ) -> Result<HashMap<Scoped<AgentId>, AgentStatus>, StoreError> {
        let read = self.memory.read_agents(agents);
        self.read("read_agents", Some(GateName::AgentStatus), read, |attempt, read, _| {
            for agent in agents {
                let status = read.get(agent).map(|status| status.as_str());
                attempt.agents.insert((agent.0.to_string(), agent.1.to_string()), status);
            }
        })
        .await
    }

    async fn read_pauses(&self, organizations: &[OrganizationId]) -> Result<Pauses, StoreError> {
        let read = self.memory.read_pauses(organizations);
        self.read("read_pauses", Some(GateName::Pause), read, |attempt, read, _| {
            attempt.pauses.insert(None, read.platform.clone());
            for organization in organizations {
                let pause = read.organizations.get(organization).cloned();
                attempt.pauses.insert(Some(organization.to_string()), pause);
            }
        })
        .await
    }

    async fn read_keys(
        &self,
        keys: &[Scoped<IdempotencyKey>],
    ) -> Result<HashMap<Scoped<IdempotencyKey>, KeySightings>, StoreError> {
        let read = self.memory.read_keys(keys);
        self.read("read_keys", Some(GateName::Duplicate), read, |attempt, _, moment| {
            attempt.keys_at = Some(moment);
        })
        .await
    }

    async fn read_queued(&self, wakes: &[&Wake]) -> Result<QueuedRuns, StoreError> {
        let read = self.memory.read_queued(wakes);
        self.read("read_queued", Some(GateName::Coalesce), read, |attempt, _, moment| {
            attempt.queued_at = Some(moment);
        })
        .await
    }

    async fn read_counted(
        &self,
        windows: &[CountWindow],
        runs_max: u32,
    ) -> Result<CountedRuns, StoreError> {
        let read = self.memory.read_counted(windows, runs_max);
        self.read("read_counted", Some(GateName::Allowance), read, |attempt, _, _| {
            attempt.counts_failed = 0;
        })
        .await
    }

    async fn read_room(&self, query: &RoomQuery) -> Result<Room, StoreError> {
        let read = self.memory.read_room(query);
        self.read("read_room", Some(GateName::Capacity), read, |attempt, read, _| {
            attempt.queued = Some(read.queued_platform);
        })
        .await
    }

    async fn record(&self, batch: &BatchRecord) -> Result<Recorded, RecordError> {
        let me = self.me;
        self.world.pass(me, Point::Before("record")).await;
        let (answer, answered) = oneshot::channel();
        let unanswered = self.world.with(|inside| inside.send_record(me, batch, answer));
        let recorded = answered.await.unwrap_or_else(|_| Err(away("record").into()));
        self.world.lag(me, unanswered).await;
        self.world.pass(me, Point::After("record")).await;
        match recorded {
            Ok(()) => Ok(proof(batch).await),
            Err(error) => Err(error),
        }
    }

    async fn begin_isolated(&self, lane: &LaneKey, wake: WakeId) -> Result<u32, StoreError> {
        self.isolated("begin_isolated", wake, self.memory.begin_isolated(lane, wake)).await
    }

    async fn end_isolated(&self, wake: WakeId) -> Result<(), StoreError> {
        self.isolated("end_isolated", wake, self.memory.end_isolated(wake)).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.memory.ping().await
    }
}

/// A proof for wakes whose batch another store has recorded: a store of its own records that they
/// are covered, and nothing else.
pub async fn proof(batch: &BatchRecord) -> Recorded {
    let mint = MemoryStore::new();
    let from = mint.lane_cursor(&batch.lane).await.expect("memory does not fail");
    let covers = BatchRecord {
        from,
        to: from,
        runs: Vec::new(),
        merges: Vec::new(),
        merged_wakes: Vec::new(),
        keys: Vec::new(),
        refusals: Vec::new(),
        shadowed: Vec::new(),
        room: None,
        ..batch.clone()
    };
    mint.record(&covers).await.expect("nothing is in its way")
}
