//! Coalescing (gate 4), and what a merge does to the allowance (AC-…-001.4, .5).

use serde_json::{Value, json};
use wakegate::store::Store;

use super::on_both_databases;
use crate::harness::case::Case;
use crate::harness::outside::OutsideRun;
use crate::harness::world::{MINUTE, Published, SECOND, T0, World, brief, mutation, requested};

on_both_databases!(
    ac_001_05_tp_06_merged_and_deduplicated_wakes_do_not_consume,
    ac_001_04_tp_15_an_agent_wake_that_merges_into_a_persons_run_counts_one,
    ac_001_05_tp_15_a_persons_wake_that_merges_into_an_agents_run_counts_none,
    gate_4_the_window_is_half_open_to_the_microsecond,
    gate_4_in_one_batch_each_wake_has_its_own_window,
    gate_4_a_merge_overwrites_the_payload_and_keeps_instant_and_key,
    gate_4_the_newest_run_wins_and_of_equal_instants_the_greatest_id,
    gate_4_only_a_queued_run_of_the_same_agent_reason_and_task_takes_a_wake_in,
    gate_4_task_buckets,
    gate_4_comment_keys_are_left_out_on_both_sides,
    gate_4_every_reason_coalesces,
    gate_4_a_merged_key_counts_as_seen,
);

fn by(at: i64, actor: &str, generation: i64) -> Published {
    mutation(at, "t1", actor, "builder", json!(generation))
}

async fn ac_001_05_tp_06_merged_and_deduplicated_wakes_do_not_consume<S: Store>(mut case: Case<S>) {
    // A burst within five seconds is one run …
    let burst: Vec<Published> = (0..8).map(|i| by(T0 + i * SECOND / 2, "boss", i)).collect();
    let outcomes = case.world.outcomes(&burst).await;
    assert_eq!(outcomes[0], "queued");
    assert_eq!(outcomes[1..], ["coalesced"; 7]);
    // … and the same occurrence again is none.
    for i in 1..8 {
        let outcome = brief(&case.world.send(by(T0 + i * 10 * SECOND, "boss", 0)).await);
        assert_eq!(outcome, "deduplicated:windowed");
    }
    assert_eq!(case.outside.run_count().await, 1);
    // So four more are admitted before the sixth in the window is refused.
    let wakes: Vec<Published> =
        (0..5).map(|i| by(T0 + 2 * MINUTE + i * 10 * SECOND, "boss", 100 + i)).collect();
    let outcomes = case.world.outcomes(&wakes).await;
    assert_eq!(outcomes[..4], ["queued"; 4]);
    assert_eq!(outcomes[4], "refused:allowance_exhausted");
    assert_eq!(case.world.allowance_counters(), [1, 0, 0]);
}

/// Seed 001, "Accepted consequence": a merge relabels the run, and the count follows the label.
async fn ac_001_04_tp_15_an_agent_wake_that_merges_into_a_persons_run_counts_one<S: Store>(
    mut case: Case<S>,
) {
    assert_eq!(brief(&case.world.send(by(T0, "", 1)).await), "queued");
    assert_eq!(brief(&case.world.send(by(T0 + SECOND, "boss", 2)).await), "coalesced");
    let wakes: Vec<Published> = (1..=5).map(|i| by(T0 + i * 10 * SECOND, "boss", 10 + i)).collect();
    let outcomes = case.world.outcomes(&wakes).await;
    assert_eq!(outcomes[..4], ["queued"; 4], "one high: the person's row now counts");
    assert_eq!(outcomes[4], "refused:allowance_exhausted");
}

async fn ac_001_05_tp_15_a_persons_wake_that_merges_into_an_agents_run_counts_none<S: Store>(
    mut case: Case<S>,
) {
    assert_eq!(brief(&case.world.send(by(T0, "boss", 1)).await), "queued");
    assert_eq!(brief(&case.world.send(by(T0 + SECOND, "", 2)).await), "coalesced");
    let wakes: Vec<Published> = (1..=6).map(|i| by(T0 + i * 10 * SECOND, "boss", 10 + i)).collect();
    let outcomes = case.world.outcomes(&wakes).await;
    assert_eq!(outcomes[..5], ["queued"; 5], "one low: the agent's slot came back");
    assert_eq!(outcomes[5], "refused:allowance_exhausted");
}

async fn gate_4_the_window_is_half_open_to_the_microsecond<S: Store>(case: Case<S>) {
    for (task, offset, expected) in [
        ("a", 0, "coalesced"),
        ("b", 5 * SECOND - 1, "coalesced"),
        ("c", 5 * SECOND, "queued"),
        ("d", 5 * SECOND + 1, "queued"),
        ("e", -1, "queued"), // the run is dated after the wake
    ] {
        // Each in a lane of its own: within one, instants do not step back.
        let lane = 1 + u32::try_from(offset.rem_euclid(97)).unwrap();
        let mut world = World::on_lane(case.world.bench.store.clone(), lane).await;
        let at = T0 + MINUTE;
        let id = 100 + u128::from(lane);
        let run = OutsideRun { id, task: Some(task), at, actor_type: None, ..Default::default() };
        case.outside.insert_run(&run).await;
        let wake = mutation(at + offset, task, "", "builder", json!(1));
        assert_eq!(brief(&world.send(wake).await), expected, "{task}: {offset} µs");
    }
}

/// What was read for one wake of a batch is no candidate for another outside of its window, and of
/// two candidates read for two wakes the newer one wins for both.
async fn gate_4_in_one_batch_each_wake_has_its_own_window<S: Store>(mut case: Case<S>) {
    let queued = |id, task, at| OutsideRun {
        id,
        task: Some(task),
        at,
        actor_type: None,
        ..Default::default()
    };
    case.outside.insert_run(&queued(1, "edge", T0)).await;
    case.outside.insert_run(&queued(2, "newest", T0 + 6 * SECOND)).await;
    case.outside.insert_run(&queued(3, "newest", T0 + 9 * SECOND)).await;
    let wake =
        |task, seconds: i64| mutation(T0 + seconds * SECOND, task, "", "builder", json!(seconds));
    let batch = [wake("edge", 4), wake("edge", 5), wake("newest", 7), wake("newest", 10)];
    let records = case.world.batch(&batch).await;
    let outcomes: Vec<String> = records.iter().map(brief).collect();
    assert_eq!(outcomes, ["coalesced", "queued", "coalesced", "coalesced"]);
    let met =
        |record: &Value, id| assert_eq!(record["run_id"], uuid::Uuid::from_u128(id).to_string());
    met(&records[0], 1);
    met(&records[2], 2);
    met(&records[3], 3);
}

async fn gate_4_a_merge_overwrites_the_payload_and_keeps_instant_and_key<S: Store>(
    mut case: Case<S>,
) {
    let first = case.world.send(by(T0, "", 1)).await;
    let second = case.world.send(by(T0 + SECOND, "boss", 2)).await;
    let third = case.world.send(by(T0 + 2 * SECOND, "helper", 3)).await;
    assert_eq!(second["run_id"], first["run_id"]);
    assert_eq!(third["run_id"], first["run_id"], "the coalesced wake names the run it met");
    assert_ne!(second["wake_id"], first["wake_id"]);
    let run = case.outside.run_of(&first).await;
    assert_eq!(run.coalesced_count, 3);
    assert_eq!(run.requested_at, T0);
    assert_eq!(run.idempotency_key.as_deref(), Some("task_assigned:t1:builder:1"));
    assert_eq!(run.actor_id.as_deref(), Some("helper"));
    assert_eq!(run.actor_type.as_deref(), Some("agent"));
    let payload: Value = serde_json::from_str(&run.payload).unwrap();
    assert_eq!(payload["actor_id"], "helper", "columns and payload say the same");
    assert_eq!(case.outside.number("SELECT count(*) FROM merged_wakes").await, 2);
}

async fn gate_4_the_newest_run_wins_and_of_equal_instants_the_greatest_id<S: Store>(
    mut case: Case<S>,
) {
    for (id, at) in [(9, T0 - 2 * SECOND), (1, T0 - SECOND), (3, T0 - SECOND), (2, T0 - SECOND)] {
        let run = OutsideRun { id, at, actor_type: None, ..Default::default() };
        case.outside.insert_run(&run).await;
    }
    let record = case.world.send(by(T0, "boss", 1)).await;
    assert_eq!(brief(&record), "coalesced");
    assert_eq!(record["run_id"], uuid::Uuid::from_u128(3).to_string());
}

async fn gate_4_only_a_queued_run_of_the_same_agent_reason_and_task_takes_a_wake_in<S: Store>(
    mut case: Case<S>,
) {
    let others = [
        OutsideRun { id: 1, agent: "reviewer", ..Default::default() },
        OutsideRun { id: 2, reason: "task_comment", ..Default::default() },
        OutsideRun { id: 3, task: Some("t2"), ..Default::default() },
        OutsideRun { id: 4, organization: "other", ..Default::default() },
        OutsideRun { id: 5, status: "claimed", ..Default::default() },
        OutsideRun { id: 6, status: "running", ..Default::default() },
        OutsideRun { id: 7, status: "succeeded", ..Default::default() },
        OutsideRun { id: 8, task: None, ..Default::default() },
    ];
    for run in others {
        case.outside.insert_run(&OutsideRun { actor_type: None, ..run }).await;
    }
    assert_eq!(brief(&case.world.send(by(T0 + SECOND, "", 1)).await), "queued");
}

async fn gate_4_task_buckets<S: Store>(mut case: Case<S>) {
    // Absent, null, "" and a payload that is no object are one bucket; a task_id that is no string
    // never merges, on either side.
    let mut at = T0;
    for (first, second, expected) in [
        (json!({}), json!({ "task_id": null }), "coalesced"),
        (json!({ "task_id": null }), json!({ "task_id": "" }), "coalesced"),
        (json!({ "task_id": "" }), json!([1, 2]), "coalesced"),
        (json!("no json"), json!({}), "coalesced"),
        (json!({}), json!({ "task_id": "t1" }), "queued"),
        (json!({ "task_id": "t1" }), json!({}), "queued"),
        (json!({ "task_id": 42 }), json!({}), "queued"),
        (json!({}), json!({ "task_id": 42 }), "queued"),
        (json!({ "task_id": 42 }), json!({ "task_id": 42 }), "queued"),
        (json!({ "task_id": 42 }), json!({ "task_id": "42" }), "queued"),
        (json!({ "task_id": "42" }), json!({ "task_id": 42 }), "queued"),
        (json!({ "task_id": "42" }), json!({ "task_id": "42" }), "coalesced"),
    ] {
        at += MINUTE;
        let what = format!("{first} then {second}");
        let first = case.world.send(requested(at, "builder", first, None)).await;
        assert_eq!(brief(&first), "queued", "{what}");
        let second = case.world.send(requested(at + 1, "builder", second, None)).await;
        assert_eq!(brief(&second), expected, "{what}");
    }
}

async fn gate_4_comment_keys_are_left_out_on_both_sides<S: Store>(mut case: Case<S>) {
    let payload = json!({ "task_id": "t1" });
    let wake = |at, key| requested(at, "builder", payload.clone(), key);
    let older = case.world.send(wake(T0, None)).await;
    // A comment's wake never merges …
    let comment = case.world.send(wake(T0 + 1, Some("task_comment:c1:builder"))).await;
    assert_eq!([brief(&older), brief(&comment)], ["queued", "queued"]);
    // … and is passed over as a target: the older keyless run takes the wake in.
    let third = case.world.send(wake(T0 + 2, None)).await;
    assert_eq!(brief(&third), "coalesced");
    assert_eq!(third["run_id"], older["run_id"]);
    // Only the prefix is looked at.
    let mention = case.world.send(wake(T0 + 3, Some("task_commented:c1"))).await;
    assert_eq!(brief(&mention), "coalesced");
}

async fn gate_4_every_reason_coalesces<S: Store>(mut case: Case<S>) {
    for (i, reason) in ["task_assigned", "task_comment", "anything"].into_iter().enumerate() {
        let at = T0 + i64::try_from(i).unwrap() * MINUTE;
        let wake = |at| {
            requested(at, "builder", json!({ "task_id": "t1" }), None)
                .with(json!({ "reason": reason }))
        };
        let outcomes = case.world.outcomes(&[wake(at), wake(at + 1)]).await;
        assert_eq!(outcomes, ["queued", "coalesced"], "{reason}");
    }
}

async fn gate_4_a_merged_key_counts_as_seen<S: Store>(mut case: Case<S>) {
    let first = case.world.send(by(T0, "boss", 1)).await;
    assert_eq!(brief(&case.world.send(by(T0 + SECOND, "boss", 2)).await), "coalesced");
    case.outside.claim_all().await;
    // The reference forgets a merged wake's key, so that this would have been a second run.
    let again = case.world.send(by(T0 + MINUTE, "boss", 2)).await;
    assert_eq!(brief(&again), "deduplicated:windowed");
    assert_eq!(again["run_id"], first["run_id"]);
}
