//! The serial model: what the contract's table says, one wake at a time, over plain vectors.
//!
//! It shares no code with the gates, not even their constants, so that a mistake would have to be
//! made twice. It is written to be read against the contract, not to be fast.

mod operators;
mod room;
mod stepwise;

use std::collections::BTreeMap;

use serde_json::Value;

use super::answer::{Answer, Played, Row};
use super::trace::{Body, Control, Event, Scope, Step, Tight, Trace};

const SECOND: i64 = 1_000_000;

/// What a payload's `task_id` says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Task {
    Named(String),
    None,
    /// Present, and no string.
    Odd,
}

struct Wake {
    index: usize,
    producer: String,
    organization: String,
    agent: String,
    reason: String,
    key: Option<String>,
    payload: Value,
    at: i64,
}

impl Wake {
    fn task(&self) -> Task {
        task_of(&self.payload)
    }

    fn is_comment(&self) -> bool {
        self.key.as_ref().is_some_and(|key| key.starts_with("task_comment:"))
    }
}

fn task_of(payload: &Value) -> Task {
    match payload.get("task_id") {
        None | Some(Value::Null) => Task::None,
        Some(Value::String(task)) if task.is_empty() => Task::None,
        Some(Value::String(task)) => Task::Named(task.clone()),
        Some(_) => Task::Odd,
    }
}

fn string_of(payload: &Value, field: &str) -> Option<String> {
    payload.get(field).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

#[derive(Clone)]
struct Run {
    wake: usize,
    id: u128,
    organization: String,
    agent: String,
    reason: String,
    status: &'static str,
    payload: Value,
    key: Option<String>,
    coalesced_count: i64,
    degraded: Option<String>,
    at: i64,
}

/// An occurrence seen with a run: by its insert, or by a merge.
#[derive(Clone)]
struct Sighting {
    organization: String,
    key: String,
    run: usize,
    at: i64,
}

#[derive(Clone, Default)]
pub struct Model {
    /// Wake ids, by event.
    ids: Vec<u128>,
    /// Answers given, by event: gate 0.
    given: Vec<Option<Answer>>,
    runs: Vec<Run>,
    /// Oldest first.
    sightings: Vec<Sighting>,
    /// (organization, agent, status)
    agents: Vec<(String, String, &'static str)>,
    /// (id, scope), those in force.
    pauses: Vec<(String, Scope)>,
    /// Which gates are in shadow: agent status, pause, allowance, capacity.
    in_shadow: [bool; 4],
    /// The allowance's count cannot be read.
    uncounted: bool,
    /// Ceilings that can be met.
    tight: Option<Tight>,
    admissions: Vec<room::Admission>,
    /// What is full, where that is told and not counted.
    told: Option<room::Full>,
    /// Events whose run was deleted.
    deleted: Vec<usize>,
    /// The lane that events are of.
    lane: u32,
    /// The last request instant of each lane.
    last: BTreeMap<u32, i64>,
}

impl Model {
    /// Plays a trace whose events have these wake ids.
    pub fn play(trace: &Trace, ids: Vec<u128>) -> Played {
        let given = vec![None; ids.len()];
        let (in_shadow, tight) = (trace.in_shadow, trace.tight);
        let mut model = Self { ids, given, in_shadow, tight, ..Self::default() };
        let mut answers = Vec::new();
        for step in &trace.steps {
            match step {
                Step::Event(index) => {
                    let answer = model.event(*index, &trace.events[*index]);
                    model.given[*index] = Some(answer.clone());
                    answers.push(Some(answer));
                }
                Step::Redeliver(index) => {
                    answers.push(model.redelivered(*index, &trace.events[*index]));
                }
                Step::Control(control) => model.control(control),
            }
        }
        Played { answers, rows: model.rows() }
    }

    /// Gate 0. Retention never reaches into what may be redelivered, so a wake whose run is gone
    /// has no right answer. A duplicate left no row: what is known of it is where its key was seen.
    fn redelivered(&self, index: usize, event: &Event) -> Option<Answer> {
        if self.deleted.contains(&index) {
            return None;
        }
        let mut answer = self.given[index].clone()?.again();
        // What a gate in shadow would have refused is on record with what became of it.
        if answer.outcome == "deduplicated" && answer.would_refuse.is_empty() {
            // At its own timestamp, for it has no part in the lane's clock any more.
            let (t, key) = (event.stored_at, event.key().expect("a duplicate has a key"));
            let of_key =
                |seen: &&Sighting| seen.organization == event.organization && seen.key == key;
            let seen: Vec<&Sighting> = self.sightings.iter().filter(of_key).collect();
            let recent = seen.iter().filter(|s| s.at > t - 24 * 3_600 * SECOND && s.at <= t);
            let newest = recent.max_by_key(|seen| (seen.at, self.ids[seen.run]));
            answer.run = newest.or(seen.first()).map(|seen| seen.run);
        }
        Some(answer)
    }

    fn event(&mut self, index: usize, event: &Event) -> Answer {
        let at = self.instant(event.stored_at);
        let (agent, reason) = match &event.body {
            Body::Mutation { assignee, .. } => ((*assignee).unwrap_or(""), "task_assigned"),
            Body::Request { agent, reason, .. } => (*agent, *reason),
        };
        if agent.is_empty() {
            return Answer::of("no_wake", at);
        }
        self.wake(&Wake {
            index,
            producer: event.producer.to_owned(),
            organization: event.organization.to_owned(),
            agent: agent.to_owned(),
            reason: reason.to_owned(),
            key: event.key(),
            payload: event.payload(),
            at,
        })
    }

    /// The stream's timestamp; a step back of less than a minute takes the lane's last instant.
    fn instant(&mut self, stored_at: i64) -> i64 {
        let at = match self.last.get(&self.lane) {
            Some(&last) if stored_at < last && last - stored_at < 60 * SECOND => last,
            _ => stored_at,
        };
        self.last.insert(self.lane, at);
        at
    }

    /// Gates 1 to 7. A gate in shadow says what it would refuse, and the next one is asked.
    fn wake(&mut self, wake: &Wake) -> Answer {
        let mut would_refuse = Vec::new();
        let answer = self.gates(wake, &mut would_refuse);
        Answer { would_refuse, ..answer }
    }

    fn gates(&mut self, wake: &Wake, would_refuse: &mut Vec<String>) -> Answer {
        let t = wake.at;

        // 1: agent status. 2: pause.
        for (gate, refused) in [self.blocked(wake), self.paused(wake)].into_iter().enumerate() {
            match refused {
                Some(refused) if self.in_shadow[gate] => {
                    would_refuse.push(refused.in_words());
                }
                Some(refused) => return refused,
                None => {}
            }
        }

        // 3: the same key in (t − 24 h, t]; of several sightings, the newest.
        let mut met: Option<(i64, u128, usize)> = None;
        for seen in self.sightings_of(wake) {
            if seen.at > t - 24 * 3_600 * SECOND && seen.at <= t {
                met = met.max(Some((seen.at, self.ids[seen.run], seen.run)));
            }
        }
        if let Some((_, _, run)) = met {
            return Answer {
                reason: Some("windowed".to_owned()),
                run: Some(run),
                ..Answer::of("deduplicated", t)
            };
        }

        // 4: coalescing.
        if let Some(place) = self.merge_target(wake) {
            let run = &mut self.runs[place];
            run.payload = wake.payload.clone();
            run.coalesced_count += 1;
            let run = run.wake;
            self.saw(wake, run);
            return Answer { run: Some(run), ..Answer::of("coalesced", t) };
        }

        // 5: the allowance, 5 in (t − 10 min, t], for agent-initiated assignments only.
        let mut degraded = None;
        if wake.reason == "task_assigned"
            && string_of(&wake.payload, "actor_type").as_deref() == Some("agent")
        {
            if let Task::Named(task) = wake.task() {
                let counted = self.counted(&wake.organization, &task, t);
                if self.uncounted {
                    degraded = Some("count_read_failed".to_owned());
                } else if counted.len() >= 5 {
                    // The fifth newest has to leave before one fits.
                    let refused = Answer {
                        observed: Some(counted.len().min(100) as u64),
                        retry_at: Some(counted[counted.len() - 5] + 600 * SECOND),
                        ..Answer::refused("allowance_exhausted", t)
                    };
                    if !self.in_shadow[2] {
                        return refused;
                    }
                    would_refuse.push(refused.in_words());
                }
            } else {
                degraded = Some("task_unattributed".to_owned());
            }
        }

        // 6: room, which a key seen at any age does not take.
        let first = self.sightings_of(wake).next().map(|seen| seen.run);
        if first.is_none()
            && let Some(refused) = self.full(wake)
        {
            if !self.in_shadow[3] {
                return refused;
            }
            would_refuse.push(refused.in_words());
        }

        // 7: insert; a key seen at any age keeps its first run.
        if let Some(run) = first {
            return Answer {
                reason: Some("durable".to_owned()),
                run: Some(run),
                ..Answer::of("deduplicated", t)
            };
        }
        self.runs.push(Run {
            wake: wake.index,
            id: self.ids[wake.index],
            organization: wake.organization.clone(),
            agent: wake.agent.clone(),
            reason: wake.reason.clone(),
            status: "queued",
            payload: wake.payload.clone(),
            key: wake.key.clone(),
            coalesced_count: 1,
            degraded: degraded.clone(),
            at: t,
        });
        self.saw(wake, wake.index);
        self.admitted(wake);
        Answer { run: Some(wake.index), degraded, ..Answer::of("queued", t) }
    }

    fn sightings_of<'a>(&'a self, wake: &'a Wake) -> impl Iterator<Item = &'a Sighting> {
        self.sightings.iter().filter(|seen| {
            seen.organization == wake.organization && Some(&seen.key) == wake.key.as_ref()
        })
    }

    fn saw(&mut self, wake: &Wake, run: usize) {
        if let Some(key) = wake.key.clone() {
            let organization = wake.organization.clone();
            self.sightings.push(Sighting { organization, key, run, at: wake.at });
        }
    }

    /// The newest queued run of the same agent, reason and task bucket in (t − 5 s, t], of equal
    /// instants the one with the greatest id.
    fn merge_target(&self, wake: &Wake) -> Option<usize> {
        if wake.is_comment() || wake.task() == Task::Odd {
            return None;
        }
        let mut best: Option<usize> = None;
        for (place, run) in self.runs.iter().enumerate() {
            let takes_in = run.status == "queued"
                && run.organization == wake.organization
                && run.agent == wake.agent
                && run.reason == wake.reason
                && task_of(&run.payload) == wake.task()
                && run.at > wake.at - 5 * SECOND
                && run.at <= wake.at
                && !run.key.as_ref().is_some_and(|key| key.starts_with("task_comment:"));
            let newer =
                best.is_none_or(|best| (run.at, run.id) > (self.runs[best].at, self.runs[best].id));
            if takes_in && newer {
                best = Some(place);
            }
        }
        best
    }

    /// Request instants of the runs that count for a task in (t − 10 min, t], oldest first,
    /// whatever became of them.
    fn counted(&self, organization: &str, task: &str, t: i64) -> Vec<i64> {
        let mut instants = Vec::new();
        for run in &self.runs {
            if run.organization == organization
                && run.reason == "task_assigned"
                && task_of(&run.payload) == Task::Named(task.to_owned())
                && string_of(&run.payload, "actor_type").as_deref() == Some("agent")
                && run.at > t - 600 * SECOND
                && run.at <= t
            {
                instants.push(run.at);
            }
        }
        instants.sort_unstable();
        instants
    }

    fn control(&mut self, control: &Control) {
        match control {
            Control::ClaimNewest => {
                let queued = self.runs.iter_mut().filter(|run| run.status == "queued");
                if let Some(run) = queued.max_by_key(|run| (run.at, run.id)) {
                    run.status = "claimed";
                }
            }
            Control::MoveAll { from, to } => {
                for run in &mut self.runs {
                    if run.status == *from {
                        run.status = to;
                    }
                }
            }
            Control::DeleteSucceeded => {
                let gone = self.runs.iter().filter(|run| run.status == "succeeded");
                self.deleted.extend(gone.map(|run| run.wake));
                self.runs.retain(|run| run.status != "succeeded");
            }
            Control::Agent { organization, agent, status } => {
                self.agents.retain(|row| row.0 != *organization || row.1 != *agent);
                self.agents.push(((*organization).to_owned(), (*agent).to_owned(), status));
            }
            Control::Pause { id, scope } => self.pauses.push((id.clone(), *scope)),
            Control::Count { readable } => self.uncounted = !readable,
            Control::Resume { id, .. } => self.pauses.retain(|pause| pause.0 != *id),
        }
    }
}
