//! Holds what was committed against the serial model, the bound of the allowance, and the facts as
//! they were.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use wakegate::store::BatchRecord;

use super::database::{LATE_MS_MAX, READ_MS_MAX, RECORD_MS_MAX};
use super::events::EventFault;
use super::oracle::{Decided, Invariant, Place};
use super::store::Attempt;
use super::worker::Me;
use super::world::Inside;
use crate::serial_model::allowance::assigned_by_agent;
use crate::serial_model::answer::{Answer, Row};
use crate::serial_model::trace::{Body, Scope};

const WINDOW: i64 = 600_000_000;
const ADMISSIONS_MAX: usize = 5;
/// Longest that an attempt at a batch takes, from its first read to its commit: the count is read
/// twice, and a record that was given up may be committed a little later.
const ATTEMPT_MS_MAX: u64 = 2 * READ_MS_MAX + RECORD_MS_MAX + LATE_MS_MAX + 100;

/// The bound of the allowance, told from outcomes and instants alone, without the model.
#[derive(Debug, Default)]
pub struct Bounds {
    /// Of each task, the runs that an agent's assignment made or joined: instant and event.
    tasks: BTreeMap<(&'static str, String), Vec<(i64, usize)>>,
    /// Runs that wakes of different actors joined: what counts of them is the model's business.
    mixed: BTreeSet<usize>,
}

impl Inside {
    /// Tells the model what operators had said when an attempt asked; where it did not ask, what
    /// they say now.
    pub fn tell_operators(&mut self, attempt: &Attempt) {
        let oracle = &mut self.oracle;
        let mut agents: BTreeMap<(String, String), &'static str> =
            oracle.agents.iter().map(|(agent, (status, _))| (agent.clone(), *status)).collect();
        for (agent, status) in &attempt.agents {
            match status {
                Some(status) => drop(agents.insert(agent.clone(), status)),
                None => drop(agents.remove(agent)),
            }
        }
        let mut pauses: BTreeMap<Option<String>, String> =
            oracle.pauses.iter().map(|(scope, (id, _))| (scope.clone(), id.clone())).collect();
        for (scope, pause) in &attempt.pauses {
            match pause {
                Some(id) => drop(pauses.insert(scope.clone(), id.clone())),
                None => drop(pauses.remove(scope)),
            }
        }
        let scope = |name: Option<String>| match name.as_deref() {
            None => Scope::Platform,
            Some("") => Scope::Organization(""),
            Some(_) => Scope::Organization("acme"),
        };
        oracle.model.operators(
            agents.into_iter().map(|((org, agent), status)| (org, agent, status)).collect(),
            pauses.into_iter().map(|(name, id)| (id, scope(name))).collect(),
        );
    }

    /// An event is decided for the first time.
    pub fn decide(
        &mut self,
        me: Me,
        index: usize,
        place: Place,
        batch: &BatchRecord,
        attempt: &Attempt,
    ) {
        let ledger = &mut self.oracle.lanes[me.lane as usize];
        let (sequence, last) = (index as u64 + 1, ledger.last_decided);
        ledger.last_decided = last.max(sequence);
        if sequence < last {
            self.breach(Invariant::Order, || {
                format!("sequence {sequence} is decided after {last}, by {me}")
            });
        }
        let answer = self.expected(me, index, place, batch, attempt);
        if let Some(answer) = &answer {
            self.bounded(index, place, answer, batch);
            self.is_fresh(me, index, place);
            if let Err(what) = as_expected(self, index, place, answer, batch) {
                self.breach(Invariant::Serial, || format!("event {index}: {what}"));
            }
        }
        let plan = std::sync::Arc::clone(&self.plan);
        self.note(|| {
            let answer = answer.as_ref().map_or("rejected", |answer| answer.outcome.as_str());
            format!("event {index} is {answer}: {}", plan.events[index].event)
        });
        let commit = self.oracle.moment().commits;
        let or_rejected =
            answer.is_some() && place == Place::Nowhere && self.may_be_rejected(index);
        self.oracle.decided.insert(index, Decided { place, answer, or_rejected, commit });
    }

    /// The model's answer; none where the event is set aside, as it may be.
    fn expected(
        &mut self,
        me: Me,
        index: usize,
        place: Place,
        batch: &BatchRecord,
        attempt: &Attempt,
    ) -> Option<Answer> {
        let plan = std::sync::Arc::clone(&self.plan);
        let event = &plan.events[index];
        let degraded = batch.runs.iter().find(|run| run.wake.id == self.oracle.id_of(index));
        let uncounted = degraded
            .and_then(|run| run.degraded)
            .is_some_and(|reason| reason.as_str() == "count_read_failed");
        let countable = attempt.counts_failed < 2;
        if uncounted && countable {
            self.breach(Invariant::Serial, || {
                format!("event {index} is admitted uncounted, and the count could be read")
            });
        }
        let malformed = event.fault == Some(EventFault::Malformed);
        let aside = place == Place::Nowhere && self.may_be_rejected(index);
        if let Some(answer) = self.overtaken(me, index, place, batch, attempt) {
            return Some(answer);
        }
        let model = &mut self.oracle.model;
        if !malformed && !aside {
            return Some(model.next(me.lane, index, &event.event, countable));
        }
        let mut trial = model.clone();
        let answer = trial.next(me.lane, index, &event.event, countable);
        if !malformed && ["deduplicated", "no_wake"].contains(&answer.outcome.as_str()) {
            *model = trial;
            return Some(answer);
        }
        model.pass(me.lane, event.event.stored_at);
        None
    }

    /// A refusal takes no key, so it loses no race for one: what another lane put on record after the
    /// keys were read comes after it, although it was committed before.
    fn overtaken(
        &mut self,
        me: Me,
        index: usize,
        place: Place,
        batch: &BatchRecord,
        attempt: &Attempt,
    ) -> Option<Answer> {
        if place != Place::Refused || self.plan.lanes == 1 {
            return None;
        }
        let plan = std::sync::Arc::clone(&self.plan);
        let event = &plan.events[index].event;
        let countable = attempt.counts_failed < 2;
        let answer = self.oracle.model.clone().next(me.lane, index, event, countable);
        let met = answer.run.filter(|_| answer.outcome == "deduplicated")?;
        let later = self.oracle.decided.get(&met)?.commit > attempt.keys_at?.commits;
        if !later || plan.events[met].lane == me.lane {
            return None;
        }
        self.oracle.model.pass(me.lane, event.stored_at);
        let id = self.oracle.id_of(index);
        let refused = batch.refusals.iter().find(|refused| refused.wake.id == id)?;
        Some(answer_of(self, &serde_json::from_str(&refused.record).unwrap()))
    }

    /// Never more than N in a window, and never a refusal before them.
    fn bounded(&mut self, index: usize, place: Place, answer: &Answer, batch: &BatchRecord) {
        let id = self.oracle.id_of(index);
        let refused = batch.refusals.iter().find(|refused| refused.wake.id == id);
        let exhausted = refused.is_some_and(|refused| refused.reason == "allowance_exhausted");
        let plan = std::sync::Arc::clone(&self.plan);
        let of = |index: usize| assigned_by_agent(&plan.events[index].event);
        let task = of(index).map(|(organization, task)| {
            let organization = if organization.is_empty() { "" } else { "acme" };
            (organization, task.to_owned())
        });
        let at = answer.requested_at;
        let in_window = |(instant, _): &&(i64, usize)| *instant > at - WINDOW && *instant <= at;
        let bounds = &mut self.oracle.bounds;
        let run = answer.run.unwrap_or(index);
        if place == Place::Merged && of(run) != of(index) {
            bounds.mixed.insert(run);
        }
        let Some(task) = task else { return };
        let runs = bounds.tasks.entry(task).or_default();
        match place {
            Place::Run => {
                let pure = |(_, run): &&(i64, usize)| !bounds.mixed.contains(run);
                let counted = runs.iter().filter(in_window).filter(pure).count();
                runs.push((at, index));
                if counted >= ADMISSIONS_MAX
                    && answer.degraded.as_deref() != Some("count_read_failed")
                {
                    self.breach(Invariant::AdmittedTooMany, || {
                        format!("event {index} is admitted with {counted} in its window")
                    });
                }
            }
            Place::Merged => {
                let joined = self.oracle.decided.get(&run).and_then(|run| run.answer.as_ref());
                if let Some(joined) = joined
                    && !runs.iter().any(|(_, known)| *known == run)
                {
                    runs.push((joined.requested_at, run));
                }
            }
            Place::Refused if exhausted => {
                let counted = runs.iter().filter(in_window).count();
                if counted < ADMISSIONS_MAX {
                    self.breach(Invariant::RefusedEarly, || {
                        format!("event {index} is refused with {counted} in its window")
                    });
                }
            }
            Place::Refused | Place::Nowhere => {}
        }
    }

    /// What has been so for longer than one attempt takes is what an attempt must have seen: nothing
    /// is admitted for who is paused.
    fn is_fresh(&mut self, me: Me, index: usize, place: Place) {
        if !matches!(place, Place::Run | Place::Merged) {
            return;
        }
        let plan = std::sync::Arc::clone(&self.plan);
        let event = &plan.events[index].event;
        let scopes = [None, Some(event.organization.to_owned())];
        let paused = scopes.iter().filter_map(|scope| self.oracle.pauses.get(scope));
        let paused = paused.map(|(id, since)| (id.clone(), *since));
        let agent = match &event.body {
            Body::Mutation { assignee, .. } => (*assignee).unwrap_or_default(),
            Body::Request { agent, .. } => agent,
        };
        let agent = (event.organization.to_owned(), agent.to_owned());
        let blocked = self.oracle.agents.get(&agent);
        let blocked = blocked.filter(|(status, _)| !["idle", "working"].contains(status));
        let blocked = blocked.map(|(status, since)| (format!("{agent:?} {status}"), *since));
        for (what, since) in paused.chain(blocked).collect::<Vec<_>>() {
            let frozen = self.stalled_since(me.worker, since);
            if self.now - since > ATTEMPT_MS_MAX + frozen {
                self.breach(Invariant::Fresh, || {
                    format!("event {index} is admitted, and {what} is in force since {since} ms")
                });
            }
        }
    }
}

/// Whether what was committed is what the model answers.
fn as_expected(
    inside: &Inside,
    index: usize,
    place: Place,
    answer: &Answer,
    batch: &BatchRecord,
) -> Result<(), String> {
    let id = inside.oracle.id_of(index);
    let expected = match answer.outcome.as_str() {
        "queued" => Place::Run,
        "coalesced" => Place::Merged,
        "refused" => Place::Refused,
        _ => Place::Nowhere,
    };
    let differs = |what: String| Err(format!("expected {answer:?}, got {what}"));
    if place != expected {
        return differs(format!("{place:?}"));
    }
    match place {
        Place::Run => {
            let run = batch.runs.iter().find(|run| run.wake.id == id).unwrap();
            let degraded = run.degraded.map(|reason| reason.as_str().to_owned());
            if degraded != answer.degraded {
                return differs(format!("degraded {degraded:?}"));
            }
        }
        Place::Merged => {
            let merged = batch.merged_wakes.iter().find(|wake| wake.wake.id == id).unwrap();
            let run = inside.oracle.index_of(merged.run_id);
            if run != answer.run {
                return differs(format!("merged into {run:?}"));
            }
        }
        Place::Refused => {
            let refused = batch.refusals.iter().find(|wake| wake.wake.id == id).unwrap();
            let record: Value = serde_json::from_str(&refused.record).unwrap();
            let told = answer_of(inside, &record);
            if told != *answer {
                return differs(format!("{told:?}"));
            }
        }
        Place::Nowhere => {}
    }
    Ok(())
}

/// An outcome record as the model would say it.
fn answer_of(inside: &Inside, record: &Value) -> Answer {
    let text = |name: &str| record.get(name).and_then(Value::as_str).map(str::to_owned);
    let run = text("run_id").and_then(|id| inside.oracle.index_of_text(&id));
    let outcome = text("outcome").unwrap();
    Answer {
        reason: text("reason").filter(|_| outcome != "no_wake"),
        degraded: text("degraded_reason"),
        run,
        observed: record["observed_count"].as_u64(),
        retry_at: text("retry_at").map(|at| micros(&at)),
        pause: text("pause_id"),
        requested_at: micros(&text("requested_at").unwrap()),
        outcome,
    }
}

fn micros(text: &str) -> i64 {
    let nanos = OffsetDateTime::parse(text, &Rfc3339).unwrap().unix_timestamp_nanos();
    i64::try_from(nanos / 1_000).unwrap()
}

impl Inside {
    /// Whether a record that was told says what was decided, and what was told before.
    pub fn agrees(
        &self,
        index: usize,
        record: &Value,
        first: Option<&Value>,
    ) -> Result<(), String> {
        let Some(decided) = self.oracle.decided.get(&index) else {
            return Err(format!("it was never decided, and is told {record}"));
        };
        let Some(expected) = &decided.answer else {
            let rejected = record["outcome"] == "rejected";
            // What the database refused may end the process when it is delivered again.
            let same = record["reason"] == "poison"
                || first.is_none_or(|first| first["reason"] == record["reason"]);
            let what = || Err(format!("it was rejected, and is told {record}"));
            return if rejected && same { Ok(()) } else { what() };
        };
        if decided.or_rejected && record["outcome"] == "rejected" {
            return Ok(());
        }
        // Of a duplicate no row says of which kind it was, nor whom it met first.
        let bare = |answer: Answer| {
            let again = answer.again();
            if again.outcome == "deduplicated" { Answer { run: None, ..again } } else { again }
        };
        let told = answer_of(self, record);
        if bare(told.clone()) != bare(expected.clone()) {
            return Err(format!("it was {expected:?}, and is told {record}"));
        }
        let derived = ["deduplicated", "no_wake"].contains(&told.outcome.as_str());
        if let Some(first) = first
            && !derived
            && first != record
        {
            return Err(format!("it was told {first}, and now {record}"));
        }
        Ok(())
    }

    /// What must be so once everything is settled.
    pub fn conclude(&mut self) {
        for lane in 0..self.oracle.lanes.len() {
            self.oracle.catch_up(lane, usize::MAX);
        }
        for index in 0..self.plan.events.len() {
            self.prove(index as u64 + 1, None);
        }
        let (expected, actual) = (self.oracle.model.all_rows(), self.rows());
        if expected != actual {
            let differing =
                expected.iter().zip(&actual).find(|(expected, actual)| expected != actual);
            let what = match differing {
                Some((expected, actual)) => format!("expected {expected:?}\n  got {actual:?}"),
                None => format!("{} rows, expected {}", actual.len(), expected.len()),
            };
            self.breach(Invariant::EveryOutcome, || what);
        }
        let of = |place: Place| self.oracle.decided.values().filter(|of| of.place == place).count();
        let kept = (self.memory.merged_wakes().len(), self.memory.refused_wakes().len());
        let decided = (of(Place::Merged), of(Place::Refused));
        if kept != decided {
            self.breach(Invariant::EveryOutcome, || {
                format!("merged and refused: {kept:?} on record, {decided:?} decided")
            });
        }
    }

    fn rows(&self) -> Vec<Row> {
        let row = |run: wakegate::store::memory::MemoryRun| {
            let payload = run.payload.text();
            Some(Row {
                run: self.oracle.index_of(run.id)?,
                organization: run.organization_id.to_string(),
                agent: run.agent_profile_id.to_string(),
                status: run.status.as_str().to_owned(),
                payload: serde_json::from_str(payload).unwrap(),
                task: run.payload.task().task().map(ToString::to_string),
                actor_type: run.payload.actor_type().map(ToString::to_string),
                actor_id: run.payload.actor_id().map(ToString::to_string),
                key: run.idempotency_key.map(|key| key.to_string()),
                coalesced_count: i64::from(run.coalesced_count),
                degraded: run.degraded.map(|reason| reason.as_str().to_owned()),
                requested_at: run.requested_at.micros(),
            })
        };
        let mut rows: Vec<Row> = self.memory.runs().into_iter().filter_map(row).collect();
        rows.sort_by_key(|row| row.run);
        rows
    }
}
