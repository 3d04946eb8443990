//! The allowance itself (AC-…-001.2 to .6, .8, .10, .11, -002.1, .4, .5, .6).

use std::time::Duration;

use serde_json::{Value, json};
use wakegate::admission::{ALLOWANCE_WAKES_MAX, ALLOWANCE_WINDOW};
use wakegate::store::Store;

use super::on_both_databases;
use super::scope::exhaust;
use crate::harness::case::Case;
use crate::harness::outside::OutsideRun;
use crate::harness::world::{MINUTE, Published, SECOND, T0, World, brief, mutation};

const W: i64 = 10 * MINUTE;

on_both_databases!(
    ac_001_02_tp_01_n_are_admitted_and_the_next_is_refused,
    ac_001_02_at_most_n_in_any_rolling_window,
    ac_001_03_tp_04_alternating_agents_share_one_allowance,
    ac_001_03_the_allowance_is_of_the_task_within_its_organization,
    ac_001_04_tp_05_a_refused_wake_does_not_consume,
    ac_001_06_a_refusal_inserts_no_run_and_merges_into_none,
    ac_001_08_tp_07_a_keyless_wake_is_bounded_too,
    ac_001_10_tp_10_equal_instants_all_count_in_any_order,
    ac_001_11_tp_12_the_window_is_half_open_to_the_microsecond,
    ac_001_11_a_future_dated_run_does_not_count,
    ac_001_11_in_one_batch_each_wake_has_its_own_window,
    ac_001_02_every_status_holds_its_slot,
    ac_002_01_concurrent_evaluation_never_refuses_before_n,
    ac_002_04_the_count_is_derived_from_rows_alone,
    ac_002_05_tp_16_a_keyed_redelivery_does_not_consume_twice_and_a_keyless_one_does,
);

/// The `i`-th assignment of `t1` to `builder` by an agent, ten seconds after the one before.
fn assignment(i: i64) -> Published {
    mutation(T0 + i * 10 * SECOND, "t1", "boss", "builder", json!(i))
}

async fn ac_001_02_tp_01_n_are_admitted_and_the_next_is_refused<S: Store>(mut case: Case<S>) {
    for i in 1..=5 {
        assert_eq!(brief(&case.world.send(assignment(i)).await), "queued", "wake {i}");
    }
    let record = case.world.send(assignment(6)).await;
    assert_eq!(brief(&record), "refused:allowance_exhausted");
    assert_eq!(record["observed_count"], 5);
    assert_eq!(record["allowance"], 5);
    assert_eq!(record["window_seconds"], 600);
    assert_eq!(record.get("run_id"), None);
    assert_eq!(case.outside.run_count().await, 5);
}

async fn ac_001_02_at_most_n_in_any_rolling_window<S: Store>(mut case: Case<S>) {
    // One wake a minute for an hour: whatever ten minutes are looked at, five were admitted.
    let mut admitted = Vec::new();
    for minute in 0..60 {
        let event = mutation(T0 + minute * MINUTE, "t1", "boss", "builder", json!(minute));
        if brief(&case.world.send(event).await) == "queued" {
            admitted.push(minute);
        }
    }
    for end in 0..60 {
        let within = admitted.iter().filter(|at| **at > end - 10 && **at <= end).count();
        assert!(within <= 5, "{within} in the window that ends at minute {end}");
    }
    assert_eq!(admitted.len(), 30, "and no fewer than allowed: {admitted:?}");
}

async fn ac_001_03_tp_04_alternating_agents_share_one_allowance<S: Store>(mut case: Case<S>) {
    let events: Vec<Published> = (1..=7)
        .map(|i| {
            let agent = if i % 2 == 0 { "builder" } else { "reviewer" };
            mutation(T0 + i * 10 * SECOND, "t1", agent, agent, json!(i))
        })
        .collect();
    let outcomes = case.world.outcomes(&events).await;
    assert_eq!(outcomes[..5], ["queued"; 5]);
    assert_eq!(outcomes[5..], ["refused:allowance_exhausted"; 2]);
}

async fn ac_001_03_the_allowance_is_of_the_task_within_its_organization<S: Store>(
    mut case: Case<S>,
) {
    exhaust(&mut case.world).await;
    let other_task = mutation(T0 + 2 * MINUTE, "t2", "boss", "builder", json!(1));
    let other_tenant = mutation(T0 + 2 * MINUTE, "t1", "boss", "builder", json!(1))
        .with(json!({ "organization_id": "other" }));
    assert_eq!(case.world.outcomes(&[other_task, other_tenant]).await, ["queued", "queued"]);
}

async fn ac_001_04_tp_05_a_refused_wake_does_not_consume<S: Store>(mut case: Case<S>) {
    exhaust(&mut case.world).await;
    for i in 0..20 {
        let event =
            mutation(T0 + 2 * MINUTE + i * 10 * SECOND, "t1", "boss", "builder", json!(50 + i));
        assert_eq!(brief(&case.world.send(event).await), "refused:allowance_exhausted");
    }
    assert_eq!(case.outside.run_count().await, 5, "refusals insert nothing");
    // The first was admitted at 10 s, the next ten seconds later, and so on: each frees its share
    // one window after its own instant.
    for (at, expected) in [
        (T0 + 10 * SECOND + W - 1, "refused:allowance_exhausted"),
        (T0 + 10 * SECOND + W, "queued"),
        (T0 + 20 * SECOND + W - 1, "refused:allowance_exhausted"),
        (T0 + 20 * SECOND + W, "queued"),
        (T0 + 50 * SECOND + W, "queued"),
        (T0 + 60 * SECOND + W, "queued"),
        (T0 + 70 * SECOND + W, "queued"),
        (T0 + 80 * SECOND + W, "refused:allowance_exhausted"),
    ] {
        let event = mutation(at, "t1", "boss", "builder", Value::Null);
        assert_eq!(brief(&case.world.send(event).await), expected, "{} s", (at - T0) / SECOND);
    }
}

async fn ac_001_06_a_refusal_inserts_no_run_and_merges_into_none<S: Store>(mut case: Case<S>) {
    exhaust(&mut case.world).await;
    let before = case.outside.runs().await;
    let record =
        case.world.send(mutation(T0 + 2 * MINUTE, "t1", "boss", "builder", json!(7))).await;
    assert_eq!(brief(&record), "refused:allowance_exhausted");
    assert_eq!(case.outside.runs().await, before, "no run was inserted or touched");
    assert_eq!(case.outside.number("SELECT count(*) FROM merged_wakes").await, 0);
    assert_eq!(case.outside.number("SELECT count(*) FROM refused_wakes").await, 2);
}

async fn ac_001_08_tp_07_a_keyless_wake_is_bounded_too<S: Store>(mut case: Case<S>) {
    for i in 1..=5 {
        let event = mutation(T0 + i * 10 * SECOND, "t1", "boss", "builder", Value::Null);
        let record = case.world.send(event).await;
        assert_eq!(brief(&record), "queued");
        assert_eq!(record.get("idempotency_key"), None);
    }
    let sixth = mutation(T0 + MINUTE, "t1", "boss", "builder", Value::Null);
    assert_eq!(brief(&case.world.send(sixth).await), "refused:allowance_exhausted");
    let unresolved = case.world.metric("wakegate_keyless_total{cause=\"unresolved\"}");
    assert!(unresolved == 6, "{unresolved}");
}

async fn ac_001_10_tp_10_equal_instants_all_count_in_any_order<S: Store>(mut case: Case<S>) {
    // Different agents, so that none merges; one instant for all.
    for order in [[1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]] {
        let task = format!("t{}", order[0]);
        let events: Vec<Published> = order
            .into_iter()
            .map(|i| mutation(T0, &task, "boss", &format!("agent-{i}"), json!(i)))
            .collect();
        let outcomes = case.world.outcomes(&events).await;
        assert_eq!(outcomes[..5], ["queued"; 5]);
        assert_eq!(outcomes[5], "refused:allowance_exhausted", "a count, not a sequence");
    }
}

async fn ac_001_11_tp_12_the_window_is_half_open_to_the_microsecond<S: Store>(mut case: Case<S>) {
    for id in 0..5 {
        case.outside
            .insert_run(&OutsideRun {
                id: 100 + id,
                status: "succeeded",
                at: T0,
                ..Default::default()
            })
            .await;
    }
    for (at, expected) in [
        (T0 - 1, "queued"), // the five are not yet there
        (T0, "refused:allowance_exhausted"),
        (T0 + W - 1, "refused:allowance_exhausted"),
        (T0 + W, "queued"), // exactly one window old: outside
    ] {
        let event = mutation(at, "t1", "boss", "builder", Value::Null);
        assert_eq!(brief(&case.world.send(event).await), expected, "{}", at - T0);
        case.outside.claim_all().await; // so that the next one cannot merge
    }
}

async fn ac_001_11_a_future_dated_run_does_not_count<S: Store>(mut case: Case<S>) {
    for id in 0..5 {
        case.outside
            .insert_run(&OutsideRun {
                id: 100 + id,
                status: "claimed",
                at: T0 + 1 + i64::try_from(id).unwrap(),
                ..Default::default()
            })
            .await;
    }
    assert_eq!(case.world.outcomes(&[assignment(0)]).await, ["queued"]);
}

/// What was read for a later wake of a batch is in the future of an earlier one.
async fn ac_001_11_in_one_batch_each_wake_has_its_own_window<S: Store>(mut case: Case<S>) {
    for id in 0..5 {
        let at = T0 + MINUTE + i64::try_from(id).unwrap();
        let run = OutsideRun { id: 100 + id, status: "claimed", at, ..Default::default() };
        case.outside.insert_run(&run).await;
    }
    let wake = |at| mutation(at, "t1", "boss", "builder", Value::Null);
    let batch = [wake(T0), wake(T0 + 2 * MINUTE), wake(T0 + W + 2 * MINUTE)];
    let outcomes: Vec<String> = case.world.batch(&batch).await.iter().map(brief).collect();
    assert_eq!(outcomes, ["queued", "refused:allowance_exhausted", "queued"]);
}

async fn ac_001_02_every_status_holds_its_slot<S: Store>(mut case: Case<S>) {
    let statuses = [
        "queued",
        "claimed",
        "running",
        "succeeded",
        "failed",
        "cancelled",
        "expired",
        "timed_out",
        "limit_exceeded",
    ];
    for (task, status) in statuses.into_iter().enumerate() {
        let name = format!("task-{task}");
        for id in 0..5_u128 {
            let id = 1_000 + 10 * u128::try_from(task).unwrap() + id;
            // Out of the coalescing window, so that a queued one takes nothing in.
            let at = T0 - MINUTE;
            let run = OutsideRun { id, status, task: Some(&name), at, ..Default::default() };
            case.outside.insert_run(&run).await;
        }
        let event = mutation(T0, &name, "boss", "builder", json!(1));
        assert_eq!(brief(&case.world.send(event).await), "refused:allowance_exhausted", "{status}");
    }
}

/// Two lanes evaluate wakes of one task at once, which the subjects rule out in service and the
/// criterion allows: each admits at most one too many, and neither refuses before N are admitted.
async fn ac_002_01_concurrent_evaluation_never_refuses_before_n<S: Store>(mut case: Case<S>) {
    for i in 1..=4 {
        assert_eq!(brief(&case.world.send(assignment(i)).await), "queued");
    }
    let mut other = World::on_lane(case.world.bench.store.clone(), 1).await;
    let at = T0 + MINUTE;
    let (one, two) = tokio::join!(
        case.world.send(mutation(at, "t1", "boss", "builder", json!(5))),
        other.send(mutation(at, "t1", "boss", "reviewer", json!(6))),
    );
    let admitted = [&one, &two].into_iter().filter(|record| brief(record) == "queued").count();
    assert!(admitted >= 1, "refused before five were admitted: {one} {two}");
    let runs = case.outside.run_count().await;
    assert!((5..=6).contains(&runs), "{runs} for two evaluations at four");
    let next = mutation(at + 10 * SECOND, "t1", "boss", "builder", json!(7));
    assert_eq!(brief(&case.world.send(next).await), "refused:allowance_exhausted");
}

async fn ac_002_04_the_count_is_derived_from_rows_alone<S: Store>(mut case: Case<S>) {
    exhaust(&mut case.world).await;
    // A worker that starts anew refuses as its predecessor did …
    let mut anew = World::on_lane(case.world.bench.store.clone(), 2).await;
    let event = mutation(T0 + 2 * MINUTE, "t1", "boss", "builder", json!(8));
    assert_eq!(brief(&anew.send(event).await), "refused:allowance_exhausted");
    // … and a run that was deleted lowers what is observed, with nothing to reconcile.
    let oldest = "requested_at = (SELECT min(requested_at) FROM runs)";
    case.outside.execute(&format!("DELETE FROM runs WHERE {oldest}")).await;
    let event = mutation(T0 + 3 * MINUTE, "t1", "boss", "builder", json!(9));
    assert_eq!(brief(&anew.send(event).await), "queued");
}

async fn ac_002_05_tp_16_a_keyed_redelivery_does_not_consume_twice_and_a_keyless_one_does<
    S: Store,
>(
    mut case: Case<S>,
) {
    // The same occurrence published again, a minute later: keyed it is a duplicate …
    for i in 0..4 {
        let at = T0 + i * MINUTE;
        let record = case.world.send(mutation(at, "keyed", "boss", "builder", json!(1))).await;
        let expected = if i == 0 { "queued" } else { "deduplicated:windowed" };
        assert_eq!(brief(&record), expected);
    }
    assert_eq!(case.outside.run_count().await, 1);
    // … and keyless it has no identity, so it consumes again until the allowance ends it.
    let outcomes = {
        let events: Vec<Published> = (0..6)
            .map(|i| {
                mutation(T0 + (4 + i) * 10 * SECOND, "keyless", "boss", "builder", Value::Null)
            })
            .collect();
        case.world.outcomes(&events).await
    };
    assert_eq!(outcomes[..5], ["queued"; 5]);
    assert_eq!(outcomes[5], "refused:allowance_exhausted");
}

#[test]
fn ac_002_06_n_is_five_and_w_ten_minutes() {
    assert_eq!(ALLOWANCE_WAKES_MAX, 5);
    assert_eq!(ALLOWANCE_WINDOW, Duration::from_mins(10));
}
