//! Short traces in which the order of gates, a window's edge or an earlier wake of the same batch
//! decides, each with its outcomes spelt out: they pin the model too.

use serde_json::{Value, json};

use super::trace::{After, Body, Control, Plan, Scope, Trace};
use crate::harness::world::{MINUTE, SECOND};

/// What it shows, the trace, and `outcome`, `outcome:reason` or `outcome/degraded` of each event.
pub struct Trap {
    pub shows: &'static str,
    pub trace: Trace,
    pub outcomes: Vec<&'static str>,
}

const HOUR: i64 = 60 * MINUTE;

fn publish(after: i64, organization: &'static str, body: Body) -> Plan {
    Plan::Publish { after: After::Micros(after), producer: "task_mutation", organization, body }
}

/// An agent, or a person, assigns `t1` to an agent.
fn assigned(after: i64, acting: &'static str, generation: Option<i64>) -> Plan {
    let body =
        Body::Mutation { task: "t1", acting: Some(acting), assignee: Some("builder"), generation };
    publish(after, "acme", body)
}

fn requested(after: i64, key: Option<&'static str>, payload: Value) -> Plan {
    publish(after, "acme", request(key, payload))
}

fn request(key: Option<&'static str>, payload: Value) -> Body {
    Body::Request { reason: "task_assigned", agent: "builder", key, payload, encoded: false }
}

/// Five admitted assignments by an agent, the generations 1 to 5.
fn exhausted() -> Vec<Plan> {
    (1..=5).map(|generation| assigned(5 * SECOND, "boss", Some(generation))).collect()
}

fn by_agent(task: &str) -> Value {
    json!({ "task_id": task, "actor_type": "agent" })
}

fn by_user(task: &str) -> Value {
    json!({ "task_id": task, "actor_type": "user" })
}

/// Every trap.
pub fn all() -> Vec<Trap> {
    let mut traps = of_order();
    traps.extend(of_windows());
    traps.extend(of_identity());
    traps
}

fn trap(
    shows: &'static str,
    plans: impl IntoIterator<Item = Plan>,
    outcomes: impl IntoIterator<Item = &'static str>,
) -> Trap {
    let trace = Trace::lay(plans.into_iter().collect());
    Trap { shows, trace, outcomes: outcomes.into_iter().collect() }
}

fn of_order() -> Vec<Trap> {
    let five = || ["queued"; 5].into_iter();
    let mut plans = exhausted();
    plans.push(assigned(6 * SECOND, "boss", Some(2)));
    let duplicate = trap(
        "an exhausted task's duplicate is a duplicate",
        plans,
        five().chain(["deduplicated:windowed"]),
    );

    let mut plans = exhausted();
    plans.push(assigned(SECOND, "boss", Some(6)));
    let merge = trap("an exhausted task's merge is a merge", plans, five().chain(["coalesced"]));

    let mut plans = exhausted();
    plans.push(assigned(5 * SECOND, "boss", Some(6)));
    plans.push(assigned(0, "", Some(7)));
    plans.push(assigned(0, "boss", Some(8)));
    let refused = trap(
        "a refused wake leaves nothing to join, a person's is not bound, and takes an agent's in",
        plans,
        five().chain(["refused:allowance_exhausted", "queued", "coalesced"]),
    );

    let duplicate_first = trap(
        "a key seen a moment ago is a duplicate, not a merge",
        [assigned(0, "boss", Some(1)), assigned(SECOND, "boss", Some(1))],
        ["queued", "deduplicated:windowed"],
    );

    let mut plans = vec![assigned(0, "", Some(100)), assigned(SECOND, "boss", Some(101))];
    plans.extend(exhausted());
    let relabelled_up = trap(
        "an agent's wake that joins a person's run makes it count",
        plans,
        ["queued", "coalesced", "queued", "queued", "queued", "queued"]
            .into_iter()
            .chain(["refused:allowance_exhausted"]),
    );

    let mut plans = vec![assigned(0, "boss", Some(100)), assigned(SECOND, "", Some(101))];
    plans.extend(exhausted());
    plans.push(assigned(6 * SECOND, "boss", None));
    let relabelled_down = trap(
        "a person's wake that joins an agent's run gives its slot back",
        plans,
        ["queued", "coalesced"].into_iter().chain(five()).chain(["refused:allowance_exhausted"]),
    );

    let paused = trap(
        "agent status is asked before the pauses, the platform's before the organization's",
        [
            assigned(0, "boss", Some(1)),
            Plan::Paused { scope: Scope::Organization("acme"), events: 3 },
            Plan::Paused { scope: Scope::Platform, events: 2 },
            Plan::Blocked { organization: "acme", agent: "builder", status: "stopped", events: 1 },
            assigned(0, "boss", Some(1)),
            assigned(0, "boss", Some(1)),
            assigned(0, "boss", Some(1)),
            assigned(0, "boss", Some(1)),
        ],
        ["queued", "refused:agent_stopped", "refused:platform_paused"]
            .into_iter()
            .chain(["refused:organization_paused", "deduplicated:windowed"]),
    );

    vec![duplicate, merge, refused, duplicate_first, relabelled_up, relabelled_down, paused]
}

fn of_windows() -> Vec<Trap> {
    let five = || ["queued"; 5].into_iter();
    let coalescing = trap(
        "a run takes wakes in for less than five seconds",
        [
            assigned(0, "", None),
            assigned(5 * SECOND - 1, "", None),
            assigned(1, "", None),
            assigned(5 * SECOND + 1, "", None),
        ],
        ["queued", "coalesced", "queued", "queued"],
    );

    // The five lie 5 s apart, so the first leaves 10 min after it was requested.
    let mut plans = exhausted();
    plans.push(assigned(10 * MINUTE - 20 * SECOND - 1, "boss", None));
    plans.push(assigned(1, "boss", None));
    plans.push(assigned(5 * SECOND - 1, "boss", None));
    let allowance = trap(
        "a slot is free again exactly one window after its wake's instant",
        plans,
        five().chain(["refused:allowance_exhausted", "queued", "coalesced"]),
    );

    let lookback = trap(
        "a key is seen for less than a day, and durable after that",
        [
            requested(0, Some("k1"), by_user("t1")),
            requested(24 * HOUR - 1, Some("k1"), by_user("t1")),
            requested(1, Some("k1"), by_user("t1")),
        ],
        ["queued", "deduplicated:windowed", "deduplicated:durable"],
    );

    let set_back = trap(
        "a clock that steps back by less than a minute stands still, by more it is believed",
        [
            assigned(0, "", None),
            assigned(10 * SECOND, "", None),
            // At the lane's last instant, so it joins; and does not move it.
            assigned(1 - MINUTE, "", None),
            assigned(MINUTE - 1, "", None),
            // Nothing was requested at or before this instant.
            assigned(-MINUTE, "", None),
        ],
        ["queued", "queued", "coalesced", "coalesced", "queued"],
    );

    let again = trap(
        "what is delivered again has no part in the lane's clock",
        [
            assigned(0, "", None),
            assigned(10 * MINUTE, "", None),
            Plan::Again(0),
            assigned(1 - MINUTE, "", None),
        ],
        ["queued", "queued", "queued", "coalesced"],
    );

    let in_the_future = trap(
        "a key seen in the future is no windowed duplicate, and cannot be inserted",
        [
            requested(0, Some("k1"), by_user("t1")),
            requested(-HOUR, Some("k1"), by_user("t1")),
            requested(0, None, by_user("t2")),
            requested(1, Some("k1"), by_user("t2")),
            requested(HOUR, Some("k1"), by_user("t2")),
        ],
        ["queued", "deduplicated:durable", "queued", "coalesced", "deduplicated:windowed"],
    );

    vec![coalescing, allowance, lookback, set_back, again, in_the_future]
}

fn of_identity() -> Vec<Trap> {
    let merged_key = trap(
        "a merged wake's key counts as seen, also when its run is taken",
        [
            requested(0, Some("k1"), by_agent("t1")),
            requested(SECOND, Some("k2"), by_agent("t1")),
            Plan::Control(Control::MoveAll { from: "queued", to: "claimed" }),
            requested(SECOND, Some("k2"), by_agent("t1")),
            requested(SECOND, Some("k1"), by_agent("t1")),
        ],
        ["queued", "coalesced", "deduplicated:windowed", "deduplicated:windowed"],
    );

    let aged = trap(
        "an aged key may join a run, keeps its first one, and is seen anew",
        [
            requested(0, Some("k1"), by_user("t1")),
            requested(25 * HOUR, None, by_user("t1")),
            requested(SECOND, Some("k1"), by_user("t1")),
            requested(SECOND, Some("k1"), by_user("t1")),
            requested(25 * HOUR, Some("k1"), by_user("t1")),
        ],
        ["queued", "queued", "coalesced", "deduplicated:windowed", "deduplicated:durable"],
    );

    let comments = trap(
        "comment keys neither join nor are joined: what is older is",
        [
            requested(0, None, by_user("t1")),
            requested(1, Some("task_comment:c1"), by_user("t1")),
            requested(1, None, by_user("t1")),
            requested(1, Some("task_comment:c2"), by_user("t1")),
        ],
        ["queued", "queued", "coalesced", "queued"],
    );

    let buckets = trap(
        "no task is one bucket, what is no string merges with nothing",
        [
            requested(0, None, json!({ "actor_type": "agent" })),
            requested(0, None, json!({ "task_id": null, "actor_type": "agent" })),
            requested(0, None, json!([])),
            requested(0, None, json!({ "task_id": 42, "actor_type": "agent" })),
            requested(0, None, json!({ "task_id": 42 })),
            requested(0, None, by_agent("42")),
        ],
        ["queued/task_unattributed", "coalesced", "coalesced"].into_iter().chain([
            "queued/task_unattributed",
            "queued",
            "queued",
        ]),
    );

    let organizations = trap(
        "keys, tasks and agents are within their organization",
        [
            publish(0, "acme", request(Some("k1"), by_agent("t1"))),
            publish(0, "", request(Some("k1"), by_agent("t1"))),
            publish(0, "acme", request(None, by_agent("t1"))),
            publish(0, "", request(Some("k1"), by_agent("t1"))),
        ],
        ["queued", "queued", "coalesced", "deduplicated:windowed"],
    );

    let ties = trap(
        "of two runs at one instant the one with the greater id takes a wake in",
        [
            requested(0, None, by_user("t1")),
            Plan::Control(Control::ClaimNewest),
            requested(0, None, by_user("t1")),
            Plan::Control(Control::MoveAll { from: "claimed", to: "queued" }),
            requested(0, None, by_user("t1")),
            requested(1, None, by_user("t1")),
        ],
        ["queued", "queued", "coalesced", "coalesced"],
    );

    vec![merged_key, aged, comments, buckets, organizations, ties]
}
