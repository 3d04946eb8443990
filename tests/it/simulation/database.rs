//! What becomes of a call on the database, and of a record that is on its way to it.

use futures_util::FutureExt as _;
use rand::Rng as _;
use tokio::sync::oneshot;
use wakegate::admission::GateName;
use wakegate::store::{BatchRecord, RecordError, Store as _, StoreError};
use wakegate::wake::WakeId;

use super::events::EventFault;
use super::plan::Weather;
use super::store::Attempt;
use super::worker::Me;
use super::world::Inside;

/// Longest that a read takes before it is given up, in milliseconds.
pub const READ_MS_MAX: u64 = 2_000;
/// Longest that a record takes before it is given up.
pub const RECORD_MS_MAX: u64 = 4_000;
/// Longest that a record which was given up may take to be committed after all.
pub const LATE_MS_MAX: u64 = 3_000;

/// What becomes of one call.
pub struct Fate {
    pub before: u64,
    pub after: u64,
    pub outcome: Outcome,
}

#[derive(PartialEq, Eq)]
pub enum Outcome {
    Answered,
    /// It fails, and had no effect.
    Failed,
    /// It had its effect, and the reply is lost.
    Unanswered,
    /// The caller gives it up, and it has its effect all the same, later.
    Late(u64),
}

pub fn away(name: &str) -> StoreError {
    StoreError::Unavailable { error: format!("{name} had no answer") }
}

impl Inside {
    pub fn fate(&mut self, deadline: u64, gate: Option<GateName>) -> Fate {
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
    pub fn send_record(
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
    pub fn commit(
        &mut self,
        me: Me,
        batch: &BatchRecord,
        attempt: &Attempt,
    ) -> Result<(), RecordError> {
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
                self.room_is_no_bar(&error);
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
