//! Generated traces: few tasks, agents and keys, so that wakes meet; instants at the edges of
//! windows, so that they meet there.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::trace::{After, Body, Control, Plan, Scope, Trace};
use crate::harness::world::{MINUTE, SECOND};

const DAY: i64 = 24 * 60 * MINUTE;

/// What a trace is about.
#[derive(Debug, Clone, Copy)]
enum Mood {
    /// Agents assign one task over and over: the allowance is met.
    Busy,
    /// Everything.
    Mixed,
}

/// Traces of up to so many plans.
pub fn traces(plans_max: usize) -> impl Strategy<Value = Trace> {
    prop_oneof![vec(plan(Mood::Busy), 1..=plans_max), vec(plan(Mood::Mixed), 1..=plans_max),]
        .prop_map(Trace::lay)
}

/// The same, and at times the allowance's count cannot be read.
pub fn uncounted_traces(plans_max: usize) -> impl Strategy<Value = Trace> {
    let plan = prop_oneof![
        20 => plan(Mood::Busy),
        1 => (1_usize..6).prop_map(|events| Plan::Uncounted { events }),
    ];
    vec(plan, 1..=plans_max).prop_map(Trace::lay)
}

/// The same, and any of the gates that refuse are in shadow; capacity only where it is ever met.
pub fn shadowed_traces(plans_max: usize) -> impl Strategy<Value = Trace> {
    (traces(plans_max), any::<[bool; 3]>()).prop_map(|(trace, [agents, pauses, allowance])| Trace {
        in_shadow: [agents, pauses, allowance, false],
        ..trace
    })
}

/// Traces of events alone, within the clock: every split of one is legal.
pub fn event_traces(events_max: usize) -> impl Strategy<Value = Trace> {
    prop_oneof![
        vec(publish(Mood::Busy), 2..=events_max),
        vec(publish(Mood::Mixed), 2..=events_max),
    ]
    .prop_map(Trace::lay)
}

fn plan(mood: Mood) -> impl Strategy<Value = Plan> {
    let disturbed = match mood {
        Mood::Busy => 1,
        Mood::Mixed => 2,
    };
    prop_oneof![
        30 => publish(mood),
        2 => any::<Index>().prop_map(Plan::Redeliver),
        2 * disturbed => control().prop_map(Plan::Control),
        disturbed => blocked(),
        disturbed => paused(),
    ]
}

fn publish(mood: Mood) -> impl Strategy<Value = Plan> {
    let producer = prop_oneof![
        4 => Just("task_mutation"),
        1 => Just("task_lifecycle"),
        1 => Just("onboarding"),
        1 => Just("recovery_sweep"),
        1 => Just("workflow_auto_start"),
        1 => Just("somebody_else"),
    ];
    (after(mood), producer, organization(), body(mood)).prop_map(
        |(after, producer, organization, body)| Plan::Publish {
            after,
            producer,
            organization,
            body,
        },
    )
}

fn organization() -> impl Strategy<Value = &'static str> {
    prop_oneof![5 => Just("acme"), 1 => Just("")]
}

fn agent() -> impl Strategy<Value = &'static str> {
    prop_oneof![3 => Just("builder"), 2 => Just("tester")]
}

fn after(mood: Mood) -> impl Strategy<Value = After> {
    let long = match mood {
        Mood::Busy => 1,
        Mood::Mixed => 4,
    };
    let edge = (
        any::<Index>(),
        prop_oneof![3 => Just(5 * SECOND), 3 => Just(10 * MINUTE), 1 => Just(DAY)],
        -1_i64..=1,
    );
    prop_oneof![
        12 => Just(After::Micros(0)),
        8 => Just(After::Micros(1)),
        16 => Just(After::Micros(SECOND)),
        30 => (-1_i64..=1).prop_map(|beside| After::Micros(5 * SECOND + beside)),
        long => (-1_i64..=1).prop_map(|beside| After::Micros(10 * MINUTE + beside)),
        long => (-1_i64..=1).prop_map(|beside| After::Micros(DAY + beside)),
        3 * long => edge.prop_map(|(of, window, beside)| After::Edge { of, window, beside }),
        3 => prop_oneof![Just(1), Just(SECOND), Just(MINUTE - 1)]
            .prop_map(|back: i64| After::Micros(-back)),
        1 => prop_oneof![Just(MINUTE), Just(MINUTE + 1), Just(60 * MINUTE)]
            .prop_map(|back: i64| After::Micros(-back)),
    ]
}

fn body(mood: Mood) -> impl Strategy<Value = Body> {
    prop_oneof![1 => mutation(mood), 1 => request(mood)]
}

fn mutation(mood: Mood) -> impl Strategy<Value = Body> {
    let (people, generations) = match mood {
        Mood::Busy => (1, 1_000_i64),
        Mood::Mixed => (6, 3),
    };
    let task = prop_oneof![8 => Just("t1"), 2 => Just("t2"), 1 => Just("42")];
    let acting = prop_oneof![
        12 => Just(Some("boss")),
        people => Just(None),
        people => Just(Some("")),
    ];
    let assignee = prop_oneof![
        16 => agent().prop_map(Some),
        1 => Just(None),
        1 => Just(Some("")),
    ];
    let generation = prop_oneof![2 => Just(None), 3 => (0..generations).prop_map(Some)];
    (task, acting, assignee, generation).prop_map(|(task, acting, assignee, generation)| {
        Body::Mutation { task, acting, assignee, generation }
    })
}

fn request(mood: Mood) -> impl Strategy<Value = Body> {
    let keyed = match mood {
        Mood::Busy => 1,
        Mood::Mixed => 3,
    };
    let reason = prop_oneof![6 => Just("task_assigned"), 1 => Just("task_comment")];
    let key = prop_oneof![
        10 => Just(None),
        1 => Just(Some("")),
        keyed => Just(Some("k1")),
        keyed => Just(Some("k2")),
        keyed => Just(Some("task_comment:c1")),
        keyed => Just(Some("task_comment:c2")),
        keyed => Just(Some("task_assigned:t1:builder:0")),
    ];
    (reason, agent(), key, payload(mood), any::<bool>()).prop_map(
        |(reason, agent, key, payload, encoded)| {
            // A bare string is what an encoded payload looks like, so that shape has one form.
            let encoded = encoded && !payload.is_string();
            Body::Request { reason, agent, key, payload, encoded }
        },
    )
}

fn payload(mood: Mood) -> impl Strategy<Value = Value> {
    let odd = match mood {
        Mood::Busy => 1,
        Mood::Mixed => 4,
    };
    let task = prop_oneof![
        20 => Just(Some(json!("t1"))),
        4 => Just(Some(json!("t2"))),
        odd => Just(Some(json!("42"))),
        odd => Just(Some(json!(42))),
        odd => Just(None),
        odd => Just(Some(Value::Null)),
        odd => Just(Some(json!(""))),
    ];
    let actor = prop_oneof![
        20 => Just(Some(json!("agent"))),
        2 * odd => Just(Some(json!("user"))),
        odd => Just(Some(json!("system"))),
        odd => Just(Some(json!(7))),
        odd => Just(None),
    ];
    let actor_id = prop_oneof![Just(None), Just(Some(json!("boss"))), Just(Some(json!(null)))];
    let object = (task, actor, actor_id).prop_map(|(task, actor, actor_id)| {
        let fields = [("task_id", task), ("actor_type", actor), ("actor_id", actor_id)];
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(fields.collect())
    });
    let no_object = prop_oneof![
        Just(json!([{ "task_id": "t1", "actor_type": "agent" }])),
        Just(json!("no JSON")),
        Just(json!(7)),
    ];
    prop_oneof![30 => object, odd => no_object]
}

fn control() -> impl Strategy<Value = Control> {
    let moved = |from, to| Just(Control::MoveAll { from, to });
    prop_oneof![
        4 => Just(Control::ClaimNewest),
        4 => moved("queued", "claimed"),
        2 => moved("claimed", "queued"),
        2 => moved("claimed", "succeeded"),
        1 => moved("claimed", "failed"),
        1 => moved("succeeded", "expired"),
        1 => Just(Control::DeleteSucceeded),
        1 => (organization(), agent()).prop_map(|(organization, agent)| Control::Agent {
            organization,
            agent,
            status: "working",
        }),
    ]
}

fn blocked() -> impl Strategy<Value = Plan> {
    let status = prop_oneof![Just("paused"), Just("stopped"), Just("pending_approval")];
    (organization(), agent(), status, 1_usize..4).prop_map(
        |(organization, agent, status, events)| Plan::Blocked {
            organization,
            agent,
            status,
            events,
        },
    )
}

fn paused() -> impl Strategy<Value = Plan> {
    let scope = prop_oneof![
        2 => Just(Scope::Platform),
        3 => organization().prop_map(Scope::Organization),
    ];
    (scope, 1_usize..4).prop_map(|(scope, events)| Plan::Paused { scope, events })
}
