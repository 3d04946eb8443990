//! Traces: what upstream services publish and what others do meanwhile, laid out at instants.

use std::fmt;

use proptest::sample::Index;
use serde_json::{Value, json};

use crate::harness::world::{Published, SECOND, T0};

/// A trace: the events in stream order, and the steps that happen.
#[derive(Clone, Default)]
pub struct Trace {
    pub events: Vec<Event>,
    pub steps: Vec<Step>,
    /// Which gates are in shadow: agent status, pause, allowance, capacity.
    pub in_shadow: [bool; 4],
    /// Ceilings that it meets; the defaults are never met.
    pub tight: Option<Tight>,
}

/// A small queue.
#[derive(Debug, Clone, Copy)]
pub struct Tight {
    /// Queued runs of all organizations.
    pub platform: u32,
    /// Queued runs of one.
    pub organization: u32,
    /// What the organization `acme` has set for itself.
    pub acme: Option<u32>,
    /// Admissions of one producer in one organization in a minute.
    pub intake: u32,
}

#[derive(Debug, Clone)]
pub enum Step {
    /// The event at this index is delivered for the first time.
    Event(usize),
    /// It is delivered again.
    Redeliver(usize),
    /// Somebody else writes to the tables. Batches end here.
    Control(Control),
}

#[derive(Debug, Clone)]
pub struct Event {
    pub stored_at: i64,
    pub producer: &'static str,
    pub organization: &'static str,
    pub body: Body,
}

#[derive(Debug, Clone)]
pub enum Body {
    Mutation {
        task: &'static str,
        acting: Option<&'static str>,
        assignee: Option<&'static str>,
        generation: Option<i64>,
    },
    Request {
        reason: &'static str,
        agent: &'static str,
        key: Option<&'static str>,
        payload: Value,
        /// The payload is published as a string that holds it.
        encoded: bool,
    },
}

#[derive(Debug, Clone)]
pub enum Control {
    /// A runner takes the newest queued run.
    ClaimNewest,
    /// Every run of one status goes to another.
    MoveAll {
        from: &'static str,
        to: &'static str,
    },
    /// Retention.
    DeleteSucceeded,
    Agent {
        organization: &'static str,
        agent: &'static str,
        status: &'static str,
    },
    Pause {
        id: String,
        scope: Scope,
    },
    Resume {
        id: String,
        scope: Scope,
    },
    /// The allowance's count cannot be read, or can again.
    Count {
        readable: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Platform,
    Organization(&'static str),
}

impl Event {
    /// The key of its occurrence.
    pub fn key(&self) -> Option<String> {
        match &self.body {
            Body::Mutation { task, assignee, generation, .. } => {
                Some(format!("task_assigned:{task}:{}:{}", (*assignee)?, (*generation)?))
            }
            Body::Request { key, .. } => (*key).filter(|key| !key.is_empty()).map(str::to_owned),
        }
    }

    /// What the runner of its wake reads.
    pub fn payload(&self) -> Value {
        let (task, acting) = match &self.body {
            Body::Mutation { task, acting, .. } => (*task, (*acting).unwrap_or("")),
            Body::Request { payload, .. } => return payload.clone(),
        };
        let mut payload = json!({ "reason": "task_assigned", "task_id": task });
        if !self.organization.is_empty() {
            payload["organization_id"] = json!(self.organization);
        }
        if acting.is_empty() {
            payload["actor_type"] = json!("user");
        } else {
            payload["actor_type"] = json!("agent");
            payload["actor_id"] = json!(acting);
        }
        payload
    }

    /// The event as a publisher sends it.
    pub fn published(&self) -> Published {
        let (mut body, task) = match &self.body {
            Body::Mutation { task, acting, assignee, generation } => {
                let mut body = json!({
                    "type": "task.mutated.v1",
                    "task_id": task,
                    "assignment_generation": generation,
                });
                if let Some(acting) = acting {
                    body["acting_agent_id"] = json!(acting);
                }
                if let Some(assignee) = assignee {
                    body["new_assignee_agent_profile_id"] = json!(assignee);
                }
                (body, *task)
            }
            Body::Request { reason, agent, key, payload, encoded } => {
                let body = json!({
                    "type": "wake.requested.v1",
                    "reason": reason,
                    "agent_profile_id": agent,
                    "idempotency_key": key,
                    "payload": if *encoded { json!(payload.to_string()) } else { payload.clone() },
                });
                (body, payload.get("task_id").and_then(Value::as_str).unwrap_or(""))
            }
        };
        if !self.organization.is_empty() {
            body["organization_id"] = json!(self.organization);
        }
        Published::of(self.producer, self.organization, task, &body, self.stored_at)
    }
}

/// A step as it is generated: relative to what came before, so that leaving steps out leaves a
/// trace.
#[derive(Debug, Clone)]
pub enum Plan {
    Publish {
        after: After,
        producer: &'static str,
        organization: &'static str,
        body: Body,
    },
    /// A random earlier event is delivered again.
    Redeliver(Index),
    /// The event at this index is.
    Again(usize),
    Control(Control),
    /// An agent has this status for so many events.
    Blocked {
        organization: &'static str,
        agent: &'static str,
        status: &'static str,
        events: usize,
    },
    /// The allowance's count cannot be read for so many events.
    Uncounted {
        events: usize,
    },
    /// A pause is in force for so many events.
    Paused {
        scope: Scope,
        events: usize,
    },
}

/// When an event is stored.
#[derive(Debug, Clone)]
pub enum After {
    /// So many microseconds after the one before it; less than nothing when the clock steps back.
    Micros(i64),
    /// At a window's edge seen from an earlier event, and so many microseconds beside it; at once
    /// if that has passed.
    Edge { of: Index, window: i64, beside: i64 },
}

impl Trace {
    /// Lays plans out at instants.
    pub fn lay(plans: Vec<Plan>) -> Self {
        let mut trace = Self::default();
        // What ends after a number of events: (events left, control).
        let mut ends: Vec<(usize, Control)> = Vec::new();
        for plan in plans {
            match plan {
                Plan::Publish { after, producer, organization, mut body } => {
                    let index = trace.events.len();
                    if let Body::Request { payload: Value::Object(payload), .. } = &mut body {
                        // So that a row's payload tells which wake was merged last.
                        payload.insert("event".to_owned(), json!(index));
                    }
                    let stored_at = trace.instant(&after);
                    trace.events.push(Event { stored_at, producer, organization, body });
                    trace.steps.push(Step::Event(index));
                    for (left, _) in &mut ends {
                        *left -= 1;
                    }
                    for (_, control) in ends.extract_if(.., |(left, _)| *left == 0) {
                        trace.steps.push(Step::Control(control));
                    }
                }
                Plan::Redeliver(which) if !trace.events.is_empty() => {
                    trace.steps.push(Step::Redeliver(which.index(trace.events.len())));
                }
                Plan::Redeliver(_) => {}
                Plan::Again(index) => trace.steps.push(Step::Redeliver(index)),
                Plan::Control(control) => trace.steps.push(Step::Control(control)),
                Plan::Blocked { organization, agent, status, events } => {
                    let end = Control::Agent { organization, agent, status: "idle" };
                    ends.push((events, end));
                    let begin = Control::Agent { organization, agent, status };
                    trace.steps.push(Step::Control(begin));
                }
                Plan::Uncounted { events } => {
                    ends.push((events, Control::Count { readable: true }));
                    trace.steps.push(Step::Control(Control::Count { readable: false }));
                }
                Plan::Paused { scope, events } => {
                    // At most one pause of a scope is in force at a time.
                    let id = format!("pause-{}", trace.steps.len());
                    let in_force = ends.iter().any(
                        |(_, end)| matches!(end, Control::Resume { scope: of, .. } if *of == scope),
                    );
                    if !in_force {
                        ends.push((events, Control::Resume { id: id.clone(), scope }));
                        trace.steps.push(Step::Control(Control::Pause { id, scope }));
                    }
                }
            }
        }
        trace
    }

    fn instant(&self, after: &After) -> i64 {
        let Some(last) = self.events.last() else { return T0 };
        match after {
            After::Micros(micros) => last.stored_at + micros,
            After::Edge { of, window, beside } => {
                let edge = self.events[of.index(self.events.len())].stored_at + window + beside;
                edge.max(last.stored_at)
            }
        }
    }

    /// The trace without retention.
    #[must_use]
    pub fn kept(mut self) -> Self {
        self.steps.retain(|step| !matches!(step, Step::Control(Control::DeleteSucceeded)));
        self
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.stored_at - T0;
        let sign = if micros < 0 { "-" } else { "+" };
        let (seconds, micros) = (micros.abs() / SECOND, micros.abs() % SECOND);
        write!(f, "T0{sign}{seconds}.{micros:06}s {:?} ", self.organization)?;
        match &self.body {
            Body::Mutation { task, acting, assignee, generation } => write!(
                f,
                "mutation of {task} by {acting:?} assigns {assignee:?} generation {generation:?}"
            ),
            Body::Request { reason, agent, key, payload, encoded } => write!(
                f,
                "request {reason} for {agent} key {key:?} payload {payload}{}",
                if *encoded { " (encoded)" } else { "" }
            ),
        }
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n  in shadow {:?}", self.in_shadow)?;
        if let Some(tight) = &self.tight {
            write!(f, "\n  {tight:?}")?;
        }
        for (place, step) in self.steps.iter().enumerate() {
            write!(f, "\n  {place:3} ")?;
            match step {
                Step::Event(index) => write!(f, "event {index}: {}", self.events[*index])?,
                Step::Redeliver(index) => write!(f, "event {index} again")?,
                Step::Control(control) => write!(f, "{control:?}")?,
            }
        }
        Ok(())
    }
}
