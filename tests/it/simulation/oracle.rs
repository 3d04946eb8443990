//! What must always hold, and what has been seen so far.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use wakegate::audit::{AuditClass, AuditEvent};
use wakegate::intake::Verdict;
use wakegate::store::BatchRecord;
use wakegate::wake::WakeId;

use super::events::EventFault;
use super::judge::Bounds;
use super::plan::Plan;
use super::worker::Me;
use super::world::Inside;
use crate::serial_model::answer::Answer;
use crate::serial_model::model::Model;

/// The name of the stream.
pub const STREAM: &str = "WAKES";

/// What is promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// Nothing is acknowledged that is not durable, and audited where operators must learn of it.
    Proof,
    /// Every wake has at most one outcome, and with it at most one run.
    OneOutcome,
    /// Every settled wake has an outcome, and what is on record is what was decided.
    EveryOutcome,
    /// Never a refusal before N admissions in the window.
    RefusedEarly,
    /// Never more than N admissions in one window.
    AdmittedTooMany,
    /// Hand-overs, crashes and batches change nothing: the answer of the serial model.
    Serial,
    /// No ceiling is exceeded, and nobody refused while there was room.
    Room,
    /// The wakes of a lane are decided in stream order.
    Order,
    /// A lane's cursor does not run back.
    Fence,
    /// The same answer at every redelivery.
    SameAnswer,
    /// Nothing is decided from facts older than one attempt.
    Fresh,
    /// Nothing is called lost that the stream keeps.
    NothingLost,
    /// The database is called behind its stream only where it is.
    NotBehind,
    /// A lane that waits keeps what it has.
    NoNak,
    /// What a lane keeps is bounded.
    Memory,
    /// Once nothing fails any more everything is settled.
    HoldEnds,
    /// Nothing panics, and a worker that is told to end does.
    Ends,
}

impl Invariant {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Proof,
        Self::OneOutcome,
        Self::EveryOutcome,
        Self::RefusedEarly,
        Self::AdmittedTooMany,
        Self::Serial,
        Self::Room,
        Self::Order,
        Self::Fence,
        Self::SameAnswer,
        Self::Fresh,
        Self::NothingLost,
        Self::NotBehind,
        Self::NoNak,
        Self::Memory,
        Self::HoldEnds,
        Self::Ends,
    ];
}

/// A promise that was broken.
#[derive(Debug, Clone)]
pub struct Breach {
    pub invariant: Invariant,
    pub at_ms: u64,
    pub what: String,
}

/// Where the rows of a wake are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Run,
    Merged,
    Refused,
    /// Duplicates, mutations that wake nobody, and what is rejected leave no row.
    Nowhere,
}

/// What became of an event.
#[derive(Debug, Clone)]
pub struct Decided {
    pub place: Place,
    /// What the serial model says; none where the event is rejected.
    pub answer: Option<Answer>,
    /// It leaves no row either way, and may have been set aside instead.
    pub or_rejected: bool,
    /// By which batch, counted over all lanes.
    pub commit: usize,
}

/// How much had happened.
#[derive(Debug, Clone, Copy, Default)]
pub struct Moment {
    /// Changes of runs from outside.
    pub changes: usize,
    /// Batches committed.
    pub commits: usize,
}

/// One lane as the oracle follows it.
#[derive(Debug, Clone, Default)]
pub struct LaneLedger {
    pub cursor: u64,
    pub last_decided: u64,
    /// Changes of runs from outside: how many there were before, which run, to what.
    pub changes: Vec<(usize, usize, &'static str)>,
    pub changes_done: usize,
}

pub struct Oracle {
    pub stream: Arc<str>,
    pub published: usize,
    pub decided: BTreeMap<usize, Decided>,
    pub lanes: Vec<LaneLedger>,
    pub model: Model,
    pub bounds: Bounds,
    pub breaches: Vec<Breach>,
    /// Pauses in force (no organization: the platform's), their ids, and since when.
    pub pauses: BTreeMap<Option<String>, (String, u64)>,
    /// Agents' status, and since when.
    pub agents: BTreeMap<(String, String), (&'static str, u64)>,
    ids: Vec<WakeId>,
    by_id: HashMap<WakeId, usize>,
    changes: usize,
    commits: usize,
    /// Audit events stored, by message id.
    audited: BTreeMap<String, AuditEvent>,
    pub(super) told: BTreeMap<usize, serde_json::Value>,
    /// Attempts at a wake alone that have begun, by worker.
    isolated: BTreeSet<(usize, usize)>,
    /// How many of those ended with the process, and how many the store left in doubt.
    burned: BTreeMap<usize, u32>,
    doubted: BTreeMap<usize, u32>,
}

impl Oracle {
    pub fn new(plan: &Plan) -> Self {
        let id = |(index, event): (usize, &super::events::SimEvent)| {
            let nanos = i128::from(event.event.stored_at) * 1_000;
            WakeId::derive(STREAM, index as u64 + 1, nanos)
        };
        let ids: Vec<WakeId> = plan.events.iter().enumerate().map(id).collect();
        Self {
            stream: Arc::from(STREAM),
            published: 0,
            decided: BTreeMap::new(),
            lanes: vec![LaneLedger::default(); plan.lanes as usize],
            model: Model::new(ids.iter().map(|id| id.uuid().as_u128()).collect())
                .with_shadows(plan.in_shadow),
            bounds: Bounds::default(),
            breaches: Vec::new(),
            pauses: BTreeMap::new(),
            agents: BTreeMap::new(),
            by_id: ids.iter().enumerate().map(|(index, id)| (*id, index)).collect(),
            ids,
            changes: 0,
            commits: 0,
            audited: BTreeMap::new(),
            told: BTreeMap::new(),
            isolated: BTreeSet::new(),
            burned: BTreeMap::new(),
            doubted: BTreeMap::new(),
        }
    }

    pub fn index_of(&self, wake: WakeId) -> Option<usize> {
        self.by_id.get(&wake).copied()
    }

    pub fn index_of_text(&self, wake: &str) -> Option<usize> {
        self.ids.iter().position(|id| id.to_string() == wake)
    }

    pub fn id_of(&self, index: usize) -> WakeId {
        self.ids[index]
    }

    pub fn moment(&self) -> Moment {
        Moment { changes: self.changes, commits: self.commits }
    }

    /// Somebody from outside changed a run.
    pub fn changed(&mut self, lane: u32, run: usize, status: &'static str) {
        self.lanes[lane as usize].changes.push((self.changes, run, status));
        self.changes += 1;
    }

    /// What the model has not learned yet of changes that were there when queued runs were read.
    pub fn catch_up(&mut self, lane: usize, seen: usize) {
        let ledger = &mut self.lanes[lane];
        while let Some((before, run, status)) = ledger.changes.get(ledger.changes_done).copied() {
            if before >= seen {
                break;
            }
            self.model.set_status(run, status);
            ledger.changes_done += 1;
        }
    }

    fn audited(&mut self, event: &AuditEvent) {
        self.audited.entry(event.message_id()).or_insert_with(|| event.clone());
    }

    pub fn audit_events(&self) -> impl Iterator<Item = &AuditEvent> {
        self.audited.values()
    }

    pub(super) fn is_audited(&self, index: usize, class_and_reason: &str) -> bool {
        self.audited.contains_key(&format!("{}.{class_and_reason}", self.ids[index]))
    }

    fn is_rejection_audited(&self, index: usize) -> bool {
        let start = format!("{}.rejected.", self.ids[index]);
        self.audited.range(start.clone()..).next().is_some_and(|(id, _)| id.starts_with(&start))
    }

    /// A process ended.
    pub fn crashed(&mut self, worker: usize) {
        let of_worker: Vec<usize> =
            self.isolated.iter().filter(|(of, _)| *of == worker).map(|(_, wake)| *wake).collect();
        for wake in of_worker {
            self.isolated.remove(&(worker, wake));
            *self.burned.entry(wake).or_default() += 1;
        }
    }

    /// Whether attempts at this wake alone ended so often with the process that it may be poison.
    /// Where the store left a note, or its end, without an answer, the attempt may count as well.
    pub fn may_be_poison(&self, index: usize) -> bool {
        let count = |of: &BTreeMap<usize, u32>| of.get(&index).copied().unwrap_or(0);
        // A worker that is frozen cannot be told from one that ended. One note is the asker's own.
        let open = self.isolated.iter().filter(|(_, wake)| *wake == index).count();
        let frozen = u32::try_from(open.saturating_sub(1)).unwrap();
        count(&self.burned) + count(&self.doubted) + frozen >= 3
    }
}

impl Inside {
    /// Something is stored on the audit stream.
    pub fn audited(&mut self, me: Me, event: &AuditEvent) {
        self.note(|| format!("{me} audits {}", event.message_id()));
        if event.class == AuditClass::Lost {
            self.breach(Invariant::NothingLost, || format!("{me} says {}", event.record));
        }
        self.oracle.audited(event);
    }

    /// Notes a broken promise.
    pub fn breach(&mut self, invariant: Invariant, what: impl FnOnce() -> String) {
        let what = what();
        self.note(|| format!("BREACH of {invariant:?}: {what}"));
        self.oracle.breaches.push(Breach { invariant, at_ms: self.now, what });
    }

    /// An attempt at a wake alone was noted, or the note was taken back.
    pub fn isolated(&mut self, me: Me, wake: WakeId, begins: bool, done: bool, doubt: bool) {
        let Some(index) = self.oracle.index_of(wake) else { return };
        let key = (me.worker, index);
        if doubt {
            *self.oracle.doubted.entry(index).or_default() += 1;
        }
        match (begins, done) {
            (true, true) => drop(self.oracle.isolated.insert(key)),
            (false, true) => drop(self.oracle.isolated.remove(&key)),
            (_, false) => {}
        }
    }

    /// A batch is durable.
    pub fn committed(&mut self, me: Me, batch: &BatchRecord, attempt: &super::store::Attempt) {
        let lane = me.lane as usize;
        let (from, to) = (self.oracle.lanes[lane].cursor, batch.to.decided_sequence);
        if to < from {
            self.breach(Invariant::Fence, || format!("lane {lane} went back from {from} to {to}"));
        }
        self.oracle.lanes[lane].cursor = to;
        self.oracle.commits += 1;
        let seen = attempt.queued_at.map_or(self.oracle.changes, |moment| moment.changes);
        self.oracle.catch_up(lane, seen);
        self.tell_operators(attempt);
        self.shadows_are_new(batch);
        let mut places = self.places(batch);
        for id in &batch.covers {
            let place = places.remove(id).unwrap_or(Place::Nowhere);
            let Some(index) = self.oracle.index_of(*id) else {
                self.breach(Invariant::EveryOutcome, || format!("{id} is no wake"));
                continue;
            };
            if let Some(decided) = self.oracle.decided.get(&index) {
                let was = decided.place;
                if place != Place::Nowhere {
                    self.breach(Invariant::OneOutcome, || {
                        format!("event {index} was {was:?}, and now is {place:?} as well")
                    });
                }
                continue;
            }
            self.decide(me, index, place, batch, attempt);
        }
        for (id, place) in places {
            self.breach(Invariant::OneOutcome, || format!("{place:?} of {id} is not covered"));
        }
        self.room_is_left(batch);
    }

    fn places(&mut self, batch: &BatchRecord) -> HashMap<WakeId, Place> {
        let runs = batch.runs.iter().map(|run| (run.wake.id, Place::Run));
        let merged = batch.merged_wakes.iter().map(|merged| (merged.wake.id, Place::Merged));
        let refused = batch.refusals.iter().map(|refused| (refused.wake.id, Place::Refused));
        let mut places = HashMap::new();
        for (id, place) in runs.chain(merged).chain(refused) {
            if let Some(other) = places.insert(id, place) {
                self.breach(Invariant::OneOutcome, || format!("{id} is {other:?} and {place:?}"));
            }
        }
        places
    }

    /// Whoever acknowledges this had better be able to prove it.
    pub fn prove(&mut self, sequence: u64, verdict: Option<Verdict>) {
        let index = usize::try_from(sequence).unwrap() - 1;
        if let Err(why) = self.proven(index, verdict) {
            self.breach(Invariant::Proof, || format!("event {index} is acknowledged: {why}"));
        }
    }

    fn proven(&self, index: usize, verdict: Option<Verdict>) -> Result<(), String> {
        let oracle = &self.oracle;
        let Some(decided) = oracle.decided.get(&index) else {
            return Err("nothing of it is durable".to_owned());
        };
        let missing = |what: &str| Err(format!("{what} is not on the audit stream"));
        let Some(answer) = &decided.answer else {
            if !oracle.is_rejection_audited(index) {
                return missing("its rejection");
            }
            if verdict == Some(Verdict::Done) {
                return Err("it was rejected, and is not terminated".to_owned());
            }
            return Ok(());
        };
        if decided.or_rejected && oracle.is_rejection_audited(index) {
            return Ok(());
        }
        if verdict == Some(Verdict::Terminate) {
            return Err(format!("it was {}, and is terminated", answer.outcome));
        }
        if let (Place::Refused, Some(reason)) = (decided.place, &answer.reason)
            && !oracle.is_audited(index, &format!("refused.{reason}"))
        {
            return missing("its refusal");
        }
        if let Some(degraded) = &answer.degraded
            && !oracle.is_audited(index, &format!("degraded.{degraded}"))
        {
            return missing("its degraded admission");
        }
        self.shadows_are_told(index, answer)
    }

    /// Whether an event may be set aside.
    pub fn may_be_rejected(&self, index: usize) -> bool {
        match self.plan.events[index].fault {
            Some(EventFault::Malformed | EventFault::Unstorable) => true,
            Some(EventFault::Deadly | EventFault::DeadlyToSettle) | None => {
                self.oracle.may_be_poison(index)
            }
        }
    }
}
