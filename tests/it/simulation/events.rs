//! Events of a run: few tasks, agents and keys, so that wakes meet; instants at the edges of
//! windows, so that they meet there. The stream's timestamps are laid out apart from simulated
//! time: a window of a day need not be waited for.

use bytes::Bytes;
use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use wakegate::wake::token::token;

use crate::harness::world::{MINUTE, SECOND, T0};
use crate::serial_model::trace::{Body, Event};

const DAY: i64 = 24 * 60 * MINUTE;

/// An event and what is the matter with it.
#[derive(Debug, Clone)]
pub struct SimEvent {
    pub event: Event,
    pub lane: u32,
    pub subject: String,
    pub body: Bytes,
    pub fault: Option<EventFault>,
    /// Somebody asks for the outcome.
    pub asked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventFault {
    /// It cannot be decoded.
    Malformed,
    /// The database refuses its rows.
    Unstorable,
    /// The process ends when it writes its rows.
    Deadly,
    /// The process ends when it acknowledges it, the first so many times.
    DeadlyToSettle,
}

impl EventFault {
    pub fn is_deadly(self) -> bool {
        matches!(self, Self::Deadly | Self::DeadlyToSettle)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    /// Agents assign one task over and over: the allowance is met.
    Busy,
    /// Everything.
    Mixed,
}

/// `deadly` asks for one that ends the process.
pub fn events(rng: &mut StdRng, lanes: u32, count: usize, deadly: bool) -> Vec<SimEvent> {
    let mood = if rng.random_bool(0.5) { Mood::Busy } else { Mood::Mixed };
    let faulty = rng.random_ratio(1, 4);
    let mut events: Vec<SimEvent> = Vec::new();
    for index in 0..count {
        let stored_at = match events.last() {
            None => T0,
            Some(last) => instant(rng, mood, lanes, last.event.stored_at, &events),
        };
        let event = event(rng, mood, stored_at, index);
        let fault = (faulty && rng.random_ratio(1, 8)).then(|| fault(rng)).filter(|fault| {
            // So that what becomes of it does not hang on who else has its key.
            *fault == EventFault::Malformed || event.key().is_none()
        });
        let fault = if deadly && index == 1 { Some(EventFault::DeadlyToSettle) } else { fault };
        let asked = rng.random_ratio(3, 4);
        events.push(SimEvent::of(event, lanes, fault, asked));
    }
    events
}

fn fault(rng: &mut StdRng) -> EventFault {
    let faults = [
        EventFault::Malformed,
        EventFault::Unstorable,
        EventFault::Deadly,
        EventFault::DeadlyToSettle,
    ];
    faults[rng.random_range(0..faults.len())]
}

impl SimEvent {
    fn of(event: Event, lanes: u32, fault: Option<EventFault>, asked: bool) -> Self {
        let published = event.published();
        let hash = published.task.bytes().chain(published.organization.bytes());
        let lane = hash.fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)))
            % lanes;
        let subject = format!(
            "wakes.{lane}.{}.{}.{}",
            published.producer,
            token(&published.organization),
            token(&published.task)
        );
        let malformed = fault == Some(EventFault::Malformed);
        let body = if malformed { Bytes::from_static(b"{\"type\":") } else { published.body };
        Self { event, lane, subject, body, fault, asked }
    }
}

fn instant(rng: &mut StdRng, mood: Mood, lanes: u32, last: i64, events: &[SimEvent]) -> i64 {
    // In two lanes the same key may be met at once; that it is a day old as well is left out.
    let day = if lanes == 1 { DAY } else { 10 * MINUTE };
    let beside = rng.random_range(-1..=1);
    let rare = if mood == Mood::Busy { 4 } else { 16 };
    match rng.random_range(0..70 + rare) {
        64..67 if lanes == 1 => last - [1, SECOND, MINUTE - 1][rng.random_range(0..3)],
        67 if lanes == 1 => last - [MINUTE, MINUTE + 1, 60 * MINUTE][rng.random_range(0..3)],
        0..12 => last,
        12..20 => last + 1,
        20..36 | 64..68 => last + SECOND,
        36..64 => last + 5 * SECOND + beside,
        68..70 => last + 10 * MINUTE + beside,
        _ => {
            let window = [5 * SECOND, 10 * MINUTE, day][rng.random_range(0..3)];
            let of = &events[rng.random_range(0..events.len())];
            (of.event.stored_at + window + beside).max(last)
        }
    }
}

fn event(rng: &mut StdRng, mood: Mood, stored_at: i64, index: usize) -> Event {
    let producers = ["task_mutation", "task_mutation", "task_lifecycle", "recovery_sweep"];
    let producer = producers[rng.random_range(0..producers.len())];
    let organization = if rng.random_ratio(1, 6) { "" } else { "acme" };
    let body = if rng.random_bool(0.5) { mutation(rng, mood) } else { request(rng, mood, index) };
    Event { stored_at, producer, organization, body }
}

fn agent(rng: &mut StdRng) -> &'static str {
    ["builder", "builder", "tester"][rng.random_range(0..3)]
}

fn mutation(rng: &mut StdRng, mood: Mood) -> Body {
    let person = if mood == Mood::Busy { 12 } else { 3 };
    let acting = if rng.random_ratio(1, person) { None } else { Some("boss") };
    let assignee = match rng.random_range(0..16) {
        0 => None,
        1 => Some(""),
        _ => Some(agent(rng)),
    };
    let generations = if mood == Mood::Busy { 1_000 } else { 4 };
    let generation = rng.random_bool(0.6).then(|| rng.random_range(0..generations));
    let task = ["t1", "t1", "t1", "t2", "42"][rng.random_range(0..5)];
    Body::Mutation { task, acting, assignee, generation }
}

fn request(rng: &mut StdRng, mood: Mood, index: usize) -> Body {
    let keyed = if mood == Mood::Busy { 8 } else { 2 };
    let keys = ["k1", "k2", "k3", "task_comment:c1"];
    let key = rng.random_ratio(1, keyed).then(|| keys[rng.random_range(0..keys.len())]);
    let reason = if rng.random_ratio(1, 8) { "task_comment" } else { "task_assigned" };
    let mut payload = match rng.random_range(0..12) {
        0 => json!({}),
        1 => json!({ "task_id": 42 }),
        2 => return list_payload(reason, agent(rng), key),
        3 => json!({ "task_id": "t2" }),
        _ => json!({ "task_id": "t1" }),
    };
    let actor = [Some("agent"), Some("agent"), Some("agent"), Some("user"), None];
    if let Some(actor) = actor[rng.random_range(0..actor.len())] {
        payload["actor_type"] = json!(actor);
    }
    // So that a row's payload tells which wake was merged last.
    payload["event"] = json!(index);
    Body::Request { reason, agent: agent(rng), key, payload, encoded: rng.random_ratio(1, 8) }
}

fn list_payload(reason: &'static str, agent: &'static str, key: Option<&'static str>) -> Body {
    let payload = Value::Array(Vec::new());
    Body::Request { reason, agent, key, payload, encoded: false }
}
