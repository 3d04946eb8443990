//! A whole worker on a queue that is full: it answers, it is asked, and nothing piles up.

use serde_json::json;

use crate::control::asking::{ask, until_answering};
use crate::harness::http::request;
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Setting, Stage};
use crate::through_servers::story::assignment;

on_both_databases!(
    seed_004_accepted_work_is_bounded_at_every_stage_and_control_answers,
    seed_004_a_refusal_for_want_of_room_reaches_operators_and_whoever_asked,
);

const LANES: u32 = 2;
const BATCH: u32 = 5;
const CAPACITY: i64 = 3;
const WAKES: usize = 400;

/// Stream to lane to queue: at the lane what its consumer grants, in the queue its ceiling; and
/// operators are answered meanwhile.
async fn seed_004_accepted_work_is_bounded_at_every_stage_and_control_answers(dialect: Dialect) {
    let setting = Setting { partitions: LANES, batch_wakes_max: BATCH, ..Setting::default() };
    let stage = Stage::with(dialect, setting).await;
    let capacity = CAPACITY.to_string();
    let worker =
        stage.worker_with(&[("WAKEGATE_LIMITS_QUEUED_RUNS_PLATFORM_MAX", &capacity)]).await;
    let client = stage.nats.client().await;
    until_answering(&client).await;
    let mut most_in_flight = 0;
    for nth in 0..WAKES {
        stage.publish(&assignment(&format!("t{nth}"), "a1", 1)).await;
        if nth % 20 == 0 {
            ask(&client, "health", json!({})).await.unwrap();
            let limits = ask(&client, "limits.get", json!({})).await.unwrap();
            assert_eq!(limits["limits"][0]["max"], CAPACITY);
            assert!(limits["limits"][0]["in_use"].as_i64().unwrap() <= CAPACITY, "{limits}");
            assert_eq!(request(worker.addr(), "GET", "/readyz").await.unwrap().status, 200);
            let queued = stage.outside.number("SELECT count(*) FROM runs").await;
            assert!(queued <= CAPACITY, "{queued} runs");
            for lane in 0..LANES {
                most_in_flight = most_in_flight.max(stage.lane(lane).await.num_ack_pending);
            }
        }
    }
    stage.settled().await;
    assert!(most_in_flight <= 2 * BATCH as usize, "{most_in_flight} of one lane");
    assert_eq!(stage.outside.run_count().await, CAPACITY, "{}", worker.log());
    let refused = "SELECT count(*) FROM refused_wakes WHERE reason = 'capacity_exhausted'";
    assert_eq!(stage.outside.number(refused).await, i64::try_from(WAKES).unwrap() - CAPACITY);
    let held = worker.moved(&["wakegate_lane_holds_total"]).await;
    assert!(held.is_empty(), "nothing was held: {held:?}");
    // Room is made, and the next wake has it: nothing was stuck behind what was refused.
    stage.outside.claim_all().await;
    stage.publish(&assignment("afterwards", "a1", 1)).await;
    stage.settled().await;
    assert_eq!(stage.outside.run_count().await, CAPACITY + 1);
}

async fn seed_004_a_refusal_for_want_of_room_reaches_operators_and_whoever_asked(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let _worker = stage.worker_with(&[("WAKEGATE_LIMITS_QUEUED_RUNS_ORGANIZATION_MAX", "1")]).await;
    let first = stage.publish_for_outcome(&assignment("t1", "a1", 1)).await;
    assert_eq!(first["outcome"], "queued");
    let refused = stage.publish_for_outcome(&assignment("t2", "a1", 1)).await;
    assert_eq!(refused["reason"], "capacity_exhausted");
    let overload = &refused["overload"];
    assert_eq!(overload["boundary"], "queued_runs.organization");
    assert_eq!((&overload["depth"], &overload["capacity"]), (&json!(1), &json!(1)));
    assert!(overload["component"].as_str().unwrap().contains('.'), "host and process: {overload}");
    let audited = stage.audited().await;
    assert_eq!(audited.len(), 1);
    assert_eq!(audited[0].subject, "wake-audit.refused.capacity_exhausted.acme");
    assert_eq!(audited[0].record, refused);
}
