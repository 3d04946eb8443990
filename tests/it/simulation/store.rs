//! The store in memory, behind a network and a database that fail, stall and lose replies.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

use futures_util::FutureExt as _;
use rand::Rng as _;
use tokio::sync::oneshot;
use wakegate::admission::GateName;
use wakegate::admission::decision::PriorOutcome;
use wakegate::admission::facts::{
    AgentStatus, CountedRuns, KeySightings, Pauses, QueuedRuns, Scoped,
};
use wakegate::store::memory::MemoryStore;
use wakegate::store::{
    BatchRecord, CountWindow, LaneCursor, LaneKey, RecordError, Recorded, Store, StoreError,
};
use wakegate::wake::{AgentId, IdempotencyKey, OrganizationId, Wake, WakeId};

use super::events::EventFault;
use super::plan::Weather;
use super::world::{Inside, Me, Point, World};

/// Longest that a read takes before it is given up, in milliseconds.
pub const READ_MS_MAX: u64 = 2_000;
/// Longest that a record takes before it is given up.
pub const RECORD_MS_MAX: u64 = 4_000;
/// Longest that a record which was given up may take to be committed after all.
pub const LATE_MS_MAX: u64 = 3_000;

/// What the reads of one attempt at a batch said, as far as others can change it.
#[derive(Debug, Clone, Default)]
pub struct Attempt {
    pub agents: BTreeMap<(String, String), Option<&'static str>>,
    pub platform: Option<Option<String>>,
    pub organizations: BTreeMap<String, Option<String>>,
    /// How many changes of runs from outside had happened when queued runs were read.
    pub queued_at: Option<usize>,
    pub counts_failed: u32,
}

#[derive(Debug, Clone)]
pub struct SimStore {
    pub world: World,
    pub me: Me,
    memory: MemoryStore,
}

/// What becomes of one call.
struct Fate {
    before: u64,
    after: u64,
    outcome: Outcome,
}

#[derive(PartialEq, Eq)]
enum Outcome {
    Answered,
    /// It fails, and had no effect.
    Failed,
    /// It had its effect, and the reply is lost.
    Unanswered,
    /// The caller gives it up, and it has its effect all the same, later.
    Late(u64),
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
        seen: impl FnOnce(&mut Attempt, &T, usize),
    ) -> Result<T, StoreError> {
        self.world.pass(self.me, Point::Before(name)).await;
        let fate = self.world.with(|inside| inside.fate(READ_MS_MAX, gate));
        self.world.lag(self.me, fate.before).await;
        let changes = self.world.with(|inside| inside.oracle.changes());
        let read = match fate.outcome {
            Outcome::Answered => read.await,
            _ => Err(away(name)),
        };
        self.world.lag(self.me, fate.after).await;
        self.world.pass(self.me, Point::After(name)).await;
        self.world.with(|inside| {
            let attempt = inside.attempts.entry((self.me.worker, self.me.lane)).or_default();
            match &read {
                Ok(read) => seen(attempt, read, changes),
                Err(_) if gate == Some(GateName::Allowance) => attempt.counts_failed += 1,
                Err(_) => {}
            }
            inside.note(|| format!("{} {name}: {read:?}", self.me));
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

pub fn away(name: &str) -> StoreError {
    StoreError::Unavailable { error: format!("{name} had no answer") }
}

impl Inside {
    fn fate(&mut self, deadline: u64, gate: Option<GateName>) -> Fate {
        let slow = self.is_weather(Weather::StoreSlow);
        let at_once = self.plan.events.is_empty();
        let mut lag = || match self.rng.random_range(0..100) {
            _ if at_once => 0,
            _ if slow => self.rng.random_range(0..deadline),
            0..70 => 0,
            70..95 => self.rng.random_range(1..5),
            95..99 => self.rng.random_range(5..60),
            _ => self.rng.random_range(60..400),
        };
        let (before, after) = (lag(), lag());
        let flaky = self.is_weather(Weather::StoreFlaky) && self.chance(300);
        let fails = self.is_weather(Weather::StoreAway)
            || gate.is_some_and(|gate| self.read_fails(gate))
            || flaky
            || before + after > deadline
            || self.noise();
        let outcome = match self.rng.random_range(0..4) {
            _ if !fails => Outcome::Answered,
            0 => Outcome::Unanswered,
            1 => Outcome::Late(self.rng.random_range(1..LATE_MS_MAX)),
            _ => Outcome::Failed,
        };
        let away = outcome == Outcome::Failed && self.is_weather(Weather::StoreAway);
        // A server that is away is often known to be at once.
        let before = if away && self.rng.random_bool(0.5) { 1 } else { before.min(deadline) };
        Fate { before, after: after.min(deadline - before.min(deadline)), outcome }
    }

    /// A record is on its way to the database, which does not care whether the process still runs
    /// or waits. Returns how long it takes the caller to learn of it.
    fn send_record(
        &mut self,
        me: Me,
        batch: &BatchRecord,
        answer: oneshot::Sender<Result<(), RecordError>>,
    ) -> u64 {
        let attempt = self.attempts.remove(&(me.worker, me.lane)).unwrap_or_default();
        self.note(|| format!("{me} records {}", described(batch)));
        let fate = self.fate(RECORD_MS_MAX, None);
        if self.is_deadly(batch) {
            self.crash(me.worker);
            return 0;
        }
        // A runner may take a run between the read and the write.
        if let Some(merge) = batch.merges.first()
            && !self.calm
            && self.chance(self.plan.quick_runner_permille)
        {
            self.set_status(merge.run_id, "claimed");
        }
        let survives = self.rng.random_bool(0.5);
        let batch = batch.clone();
        match fate.outcome {
            Outcome::Failed => self.soon(fate.before, |_| drop(answer)),
            Outcome::Answered | Outcome::Unanswered => self.soon(fate.before, move |inside| {
                if survives || inside.is_alive(me) {
                    let recorded = inside.commit(me, &batch, &attempt);
                    if fate.outcome == Outcome::Answered {
                        let _ = answer.send(recorded);
                    }
                }
            }),
            Outcome::Late(ms) => {
                self.soon(fate.before, |_| drop(answer));
                self.after(fate.before + ms, move |inside| {
                    let _ = inside.commit(me, &batch, &attempt);
                });
            }
        }
        fate.after
    }

    /// The batch is committed, if the database takes it.
    fn commit(&mut self, me: Me, batch: &BatchRecord, attempt: &Attempt) -> Result<(), RecordError> {
        if let Some(error) = self.unstorable(batch) {
            return Err(StoreError::Data { error }.into());
        }
        let memory = self.memory.clone();
        let recorded = memory.record(batch).now_or_never().expect("memory does not wait");
        match recorded {
            Ok(_) => {
                self.note(|| {
                    let (from, to) = (batch.from.decided_sequence, batch.to.decided_sequence);
                    format!("{me} COMMITS {from} → {to}")
                });
                self.mark(&[batch.to.decided_sequence, me.worker as u64]);
                self.committed(me, batch, attempt);
                Ok(())
            }
            Err(error) => {
                self.note(|| format!("{me} does not commit: {error}"));
                Err(error)
            }
        }
    }

    /// Whether the database refuses the rows of one of the wakes.
    fn unstorable(&self, batch: &BatchRecord) -> Option<String> {
        let at_fault = rows(batch).find(|wake| self.fault(*wake) == Some(EventFault::Unstorable));
        at_fault.map(|wake| format!("the rows of {wake} cannot be stored"))
    }

    /// Whether writing this ends the process.
    fn is_deadly(&self, batch: &BatchRecord) -> bool {
        rows(batch).any(|wake| self.fault(wake) == Some(EventFault::Deadly))
    }

    fn fault(&self, wake: WakeId) -> Option<EventFault> {
        let index = self.oracle.index_of(wake)?;
        self.plan.events[index].fault
    }
}

/// The wakes that a batch writes rows for.
fn rows(batch: &BatchRecord) -> impl Iterator<Item = WakeId> {
    let runs = batch.runs.iter().map(|run| run.wake.id);
    let merged = batch.merged_wakes.iter().map(|merged| merged.wake.id);
    runs.chain(merged).chain(batch.refusals.iter().map(|refused| refused.wake.id))
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
            attempt.platform = Some(read.platform.clone());
            for organization in organizations {
                let pause = read.organizations.get(organization).cloned();
                attempt.organizations.insert(organization.to_string(), pause);
            }
        })
        .await
    }

    async fn read_keys(
        &self,
        keys: &[Scoped<IdempotencyKey>],
    ) -> Result<HashMap<Scoped<IdempotencyKey>, KeySightings>, StoreError> {
        let read = self.memory.read_keys(keys);
        self.read("read_keys", Some(GateName::Duplicate), read, |_, _, _| ()).await
    }

    async fn read_queued(&self, wakes: &[&Wake]) -> Result<QueuedRuns, StoreError> {
        let read = self.memory.read_queued(wakes);
        self.read("read_queued", Some(GateName::Coalesce), read, |attempt, _, changes| {
            attempt.queued_at = Some(changes);
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
        ..batch.clone()
    };
    mint.record(&covers).await.expect("nothing is in its way")
}

fn described(batch: &BatchRecord) -> String {
    let ids = |ids: Vec<WakeId>| ids.iter().map(short).collect::<Vec<_>>().join(" ");
    format!(
        "{} → {}: runs [{}], merges [{}], refusals [{}], covers [{}]",
        batch.from.decided_sequence,
        batch.to.decided_sequence,
        ids(batch.runs.iter().map(|run| run.wake.id).collect()),
        ids(batch.merged_wakes.iter().map(|merged| merged.wake.id).collect()),
        ids(batch.refusals.iter().map(|refused| refused.wake.id).collect()),
        ids(batch.covers.clone()),
    )
}

fn short(id: &WakeId) -> String {
    let id = id.to_string();
    id[id.len() - 6..].to_owned()
}
