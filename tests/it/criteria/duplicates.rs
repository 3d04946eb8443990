//! Duplicates (gates 3 and 7).

use serde_json::json;
use wakegate::store::Store;

use super::on_both_databases;
use crate::harness::case::Case;
use crate::harness::outside::OutsideRun;
use crate::harness::world::{MINUTE, SECOND, T0, World, brief, mutation, requested};

const DAY: i64 = 24 * 60 * MINUTE;

on_both_databases!(
    gate_3_the_window_is_half_open_to_the_microsecond_and_gate_7_has_none,
    gate_3_a_key_is_seen_within_its_organization,
    gate_3_an_occurrence_and_not_an_assignment_is_deduplicated,
    gate_3_an_aged_key_that_merges_is_seen_again_and_keeps_its_first_run,
    gate_7_two_lanes_race_for_one_key,
);

async fn gate_3_the_window_is_half_open_to_the_microsecond_and_gate_7_has_none<S: Store>(
    case: Case<S>,
) {
    let offsets = [
        (0, "deduplicated:windowed"),
        (1, "deduplicated:windowed"),
        (DAY - 1, "deduplicated:windowed"),
        (DAY, "deduplicated:durable"),
        (DAY + 1, "deduplicated:durable"),
        (400 * DAY, "deduplicated:durable"),
        (-1, "deduplicated:durable"),
    ];
    for (lane, (offset, expected)) in (1_u32..).zip(offsets) {
        let mut world = World::on_lane(case.world.bench.store.clone(), lane).await;
        let key = format!("k{lane}");
        let id = 100 + u128::from(lane);
        // Claimed, so that nothing coalesces.
        let run = OutsideRun { id, status: "claimed", key: Some(&key), ..Default::default() };
        case.outside.insert_run(&run).await;
        let event = requested(T0 + offset, "builder", json!({ "task_id": "t1" }), Some(&key));
        let record = world.send(event).await;
        assert_eq!(brief(&record), expected, "{offset} µs");
        assert_eq!(record["run_id"], uuid::Uuid::from_u128(id).to_string());
        let kind = expected.trim_start_matches("deduplicated:");
        let counted = world.metric(&format!("wakegate_dedup_total{{kind=\"{kind}\"}}"));
        assert!(counted == 1);
    }
}

async fn gate_3_a_key_is_seen_within_its_organization<S: Store>(mut case: Case<S>) {
    let keyed = |at, organization: &str| {
        requested(at, "builder", json!({ "task_id": "t1" }), Some("k"))
            .with(json!({ "organization_id": organization }))
    };
    let outcomes = case
        .world
        .outcomes(&[
            keyed(T0, "acme"),
            keyed(T0, "other"),
            keyed(T0, ""),
            keyed(T0 + MINUTE, "other"),
        ])
        .await;
    assert_eq!(outcomes, ["queued", "queued", "queued", "deduplicated:windowed"]);
}

async fn gate_3_an_occurrence_and_not_an_assignment_is_deduplicated<S: Store>(mut case: Case<S>) {
    // A to B and back to A wakes A again: the generation differs.
    let events = [
        mutation(T0, "t1", "", "a", json!(1)),
        mutation(T0 + 10 * SECOND, "t1", "", "b", json!(2)),
        mutation(T0 + 20 * SECOND, "t1", "", "a", json!(3)),
        mutation(T0 + 30 * SECOND, "t1", "", "a", json!(3)),
        mutation(T0 + 40 * SECOND, "t1", "", "a", json!(0)),
        mutation(T0 + 50 * SECOND, "t1", "", "a", json!(0)),
    ];
    assert_eq!(
        case.world.outcomes(&events).await,
        ["queued", "queued", "queued", "deduplicated:windowed", "queued", "deduplicated:windowed"]
    );
}

async fn gate_3_an_aged_key_that_merges_is_seen_again_and_keeps_its_first_run<S: Store>(
    mut case: Case<S>,
) {
    let keyed = |at, key| requested(at, "builder", json!({ "task_id": "t1" }), key);
    let first = case.world.send(keyed(T0, Some("k"))).await;
    case.outside.claim_all().await;
    let later = T0 + 2 * DAY;
    let target = case.world.send(keyed(later, None)).await;
    let merged = case.world.send(keyed(later + SECOND, Some("k"))).await;
    assert_eq!(brief(&merged), "coalesced", "the aged key is past gate 3, and gate 4 comes first");
    assert_eq!(merged["run_id"], target["run_id"]);
    // Seen again with the merge, so within the window once more.
    let again = case.world.send(keyed(later + 2 * SECOND, Some("k"))).await;
    assert_eq!(brief(&again), "deduplicated:windowed");
    assert_eq!(again["run_id"], target["run_id"]);
    // The key itself still names its first run.
    case.outside.claim_all().await;
    let durable = case.world.send(keyed(later + 3 * DAY, Some("k"))).await;
    assert_eq!(brief(&durable), "deduplicated:durable");
    assert_eq!(durable["run_id"], first["run_id"]);
}

async fn gate_7_two_lanes_race_for_one_key<S: Store>(mut case: Case<S>) {
    let mut other = World::on_lane(case.world.bench.store.clone(), 1).await;
    for i in 0..10 {
        let key = format!("race-{i}");
        let one = requested(T0 + i * MINUTE, "builder", json!({ "task_id": "t1" }), Some(&key));
        let two = requested(T0 + i * MINUTE, "builder", json!({ "task_id": "t2" }), Some(&key));
        let (one, two) = tokio::join!(case.world.send(one), other.send(two));
        let mut outcomes = [brief(&one), brief(&two)];
        outcomes.sort();
        assert_eq!(outcomes, ["deduplicated:windowed", "queued"], "{one} {two}");
        assert_eq!(one["run_id"], two["run_id"], "the loser names the winner's run");
    }
}
