//! Holds what was committed against the serial model, the bound of the allowance, and the facts as
//! they were.

use std::collections::{BTreeMap, BTreeSet};

use wakegate::store::BatchRecord;

use super::database::{LATE_MS_MAX, READ_MS_MAX, RECORD_MS_MAX};
use super::events::EventFault;
use super::oracle::{Decided, Invariant, Place};
use super::store::Attempt;
use super::verdict::{answer_of, as_expected};
use super::worker::Me;
use super::world::Inside;
use crate::serial_model::allowance::assigned_by_agent;
use crate::serial_model::answer::Answer;
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
        self.room_was_taken(index, batch, attempt);
        let overload = self.overload_of(index, batch);
        self.oracle.model.room_is(overload);
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
                    && !plan.in_shadow[2]
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
        let [agents_in_shadow, pauses_in_shadow, ..] = plan.in_shadow;
        let paused = scopes.iter().filter_map(|scope| self.oracle.pauses.get(scope));
        let paused = paused.filter(|_| !pauses_in_shadow);
        let paused = paused.map(|(id, since)| (id.clone(), *since));
        let agent = match &event.body {
            Body::Mutation { assignee, .. } => (*assignee).unwrap_or_default(),
            Body::Request { agent, .. } => agent,
        };
        let agent = (event.organization.to_owned(), agent.to_owned());
        let blocked = self.oracle.agents.get(&agent);
        let blocked = blocked.filter(|(status, _)| !["idle", "working"].contains(status));
        let blocked = blocked.filter(|_| !agents_in_shadow);
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
