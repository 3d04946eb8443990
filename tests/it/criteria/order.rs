//! The order of the gates, where swapping two of them would change an answer (AC-…-001.5).

use serde_json::{Value, json};
use wakegate::admission::{GATES, GateName, Posture};
use wakegate::store::Store;

use super::on_both_databases;
use super::scope::exhaust;
use crate::harness::case::Case;
use crate::harness::outside::OutsideRun;
use crate::harness::world::{MINUTE, SECOND, T0, brief, mutation, requested};

on_both_databases!(
    ac_001_05_exhausted_and_then_a_duplicate_key_is_deduplicated,
    ac_001_05_exhausted_and_then_a_coalescible_wake_is_coalesced,
    ac_001_05_exhausted_with_an_aged_key_is_refused,
    order_exhausted_and_paused_is_paused,
    order_a_stopped_agent_is_named_before_the_pause,
    order_the_platforms_pause_is_named_before_the_organizations,
    order_paused_and_then_a_duplicate_key_is_paused,
    order_a_duplicate_that_could_merge_is_deduplicated,
);

#[test]
fn order_the_list_is_the_contracts() {
    let listed: Vec<(GateName, Posture)> =
        GATES.iter().map(|gate| (gate.name, gate.posture)).collect();
    assert_eq!(
        listed,
        [
            (GateName::Identity, Posture::Hold),
            (GateName::AgentStatus, Posture::Hold),
            (GateName::Pause, Posture::Closed),
            (GateName::Duplicate, Posture::Hold),
            (GateName::Coalesce, Posture::Hold),
            (GateName::Allowance, Posture::Open),
            (GateName::Capacity, Posture::Hold),
            (GateName::Insert, Posture::Hold),
        ]
    );
}

async fn ac_001_05_exhausted_and_then_a_duplicate_key_is_deduplicated<S: Store>(mut case: Case<S>) {
    exhaust(&mut case.world).await;
    let again = mutation(T0 + 2 * MINUTE, "t1", "boss", "builder", json!(3));
    assert_eq!(brief(&case.world.send(again).await), "deduplicated:windowed");
    assert_eq!(case.world.allowance_counters(), [1, 0, 0], "only exhausting it moved one");
}

async fn ac_001_05_exhausted_and_then_a_coalescible_wake_is_coalesced<S: Store>(mut case: Case<S>) {
    exhaust(&mut case.world).await;
    let target = OutsideRun { id: 9, at: T0 + MINUTE, ..Default::default() };
    case.outside.insert_run(&target).await;
    let burst = mutation(T0 + 62 * SECOND, "t1", "boss", "builder", json!(7));
    let record = case.world.send(burst).await;
    assert_eq!(brief(&record), "coalesced");
    assert_eq!(case.world.allowance_counters(), [1, 0, 0]);
}

async fn ac_001_05_exhausted_with_an_aged_key_is_refused<S: Store>(mut case: Case<S>) {
    let day = 24 * 60 * MINUTE;
    let key = "task_assigned:t1:builder:99";
    let run = OutsideRun { id: 9, at: T0 - day, key: Some(key), ..Default::default() };
    case.outside.insert_run(&run).await;
    exhaust(&mut case.world).await;
    // Gate 7 would deduplicate it, but gate 5 comes first.
    let aged = mutation(T0 + 2 * MINUTE, "t1", "boss", "builder", json!(99));
    assert_eq!(brief(&case.world.send(aged).await), "refused:allowance_exhausted");
}

async fn order_exhausted_and_paused_is_paused<S: Store>(mut case: Case<S>) {
    exhaust(&mut case.world).await;
    case.outside.pause("p1", Some("acme")).await;
    let record =
        case.world.send(mutation(T0 + 2 * MINUTE, "t1", "boss", "builder", json!(7))).await;
    assert_eq!(brief(&record), "refused:organization_paused");
    assert_eq!(record["pause_id"], "p1");
    assert_eq!(record.get("observed_count"), None);
}

async fn order_a_stopped_agent_is_named_before_the_pause<S: Store>(mut case: Case<S>) {
    case.outside.pause("p1", None).await;
    case.outside.set_agent("acme", "builder", "stopped").await;
    let record = case.world.send(mutation(T0, "t1", "", "builder", json!(1))).await;
    assert_eq!(brief(&record), "refused:agent_stopped");
}

async fn order_the_platforms_pause_is_named_before_the_organizations<S: Store>(mut case: Case<S>) {
    case.outside.pause("of-acme", Some("acme")).await;
    case.outside.pause("of-all", None).await;
    let record = case.world.send(mutation(T0, "t1", "", "builder", json!(1))).await;
    assert_eq!(brief(&record), "refused:platform_paused");
    assert_eq!(record["pause_id"], "of-all");
}

async fn order_paused_and_then_a_duplicate_key_is_paused<S: Store>(mut case: Case<S>) {
    let wake = mutation(T0, "t1", "", "builder", json!(1));
    assert_eq!(brief(&case.world.send(wake.clone()).await), "queued");
    case.outside.pause("p1", Some("acme")).await;
    // Published anew, so a new wake of an old occurrence: gate 2 comes before gate 3.
    assert_eq!(brief(&case.world.send(wake.at(T0 + 1)).await), "refused:organization_paused");
}

async fn order_a_duplicate_that_could_merge_is_deduplicated<S: Store>(mut case: Case<S>) {
    let keyed = |at, key: Option<&str>| requested(at, "builder", json!({ "task_id": "t" }), key);
    let first = case.world.send(keyed(T0, Some("k"))).await;
    let again = case.world.send(keyed(T0 + 1, Some("k"))).await;
    assert_eq!(brief(&again), "deduplicated:windowed");
    let run = case.outside.run_of(&first).await;
    assert_eq!(run.coalesced_count, 1);
    assert_eq!(again.get("observed_count"), None::<&Value>);
}
