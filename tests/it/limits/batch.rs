//! What one lane takes in, works at once, has on its way, and may take to end.

use serde_json::json;

use crate::harness::worker::Worker;
use crate::through_servers::stage::{Dialect, Setting, Stage};
use crate::through_servers::stall;
use crate::through_servers::story::assignment;

async fn batches(worker: &Worker) -> (f64, f64) {
    let series = worker.scrape().await;
    (series["wakegate_batch_wakes_sum"], series["wakegate_batch_wakes_count"])
}

fn same(left: f64, right: f64) -> bool {
    (left - right).abs() < f64::EPSILON
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_holds_so_many_wakes_and_so_many_bytes() {
    let setting = Setting { batch_wakes_max: 5, ..Setting::default() };
    let stage = Stage::with(Dialect::Sqlite, setting).await;
    for nth in 0..100 {
        stage.publish(&assignment(&format!("t{nth}"), "a1", 1)).await;
    }
    let worker = stage.worker().await;
    stage.settled().await;
    let (wakes, count) = batches(&worker).await;
    assert!(same(wakes, 100.0) && count >= 20.0, "{wakes} wakes in {count} batches");
    drop(worker);

    let stage = Stage::set(Dialect::Sqlite).await;
    for nth in 0..20 {
        let large =
            assignment(&format!("t{nth}"), "a1", 1).with(json!({ "x": "x".repeat(200_000) }));
        stage.publish(&large).await;
    }
    let worker = stage.worker_with(&[("WAKEGATE_LANES_BATCH_BYTES_MAX", "1048576")]).await;
    stage.settled().await;
    let (wakes, count) = batches(&worker).await;
    assert!(same(wakes, 20.0) && count >= 4.0, "{wakes} wakes in {count} batches");
}

/// More refusals in one batch than audit events may be on their way.
#[tokio::test(flavor = "multi_thread")]
async fn audit_events_beyond_those_in_flight_wait_for_their_turn() {
    const REFUSALS: usize = 1_200;
    let setting = Setting { batch_wakes_max: 2_000, ..Setting::default() };
    let stage = Stage::with(Dialect::Sqlite, setting).await;
    stage.outside.pause("p1", None).await;
    for nth in 0..REFUSALS {
        stage.publish(&assignment(&format!("t{nth}"), "a1", 1)).await;
    }
    let worker = stage.worker().await;
    stage.settled().await;
    let mut audit = stage.context.get_stream("WAKE_AUDIT").await.unwrap();
    let kept = audit.info().await.unwrap().state.messages;
    assert_eq!(kept, REFUSALS as u64, "{}", worker.log());
    let failed = "wakegate_audit_publish_failures_total";
    assert!(same(worker.scrape().await[failed], 0.0), "{}", worker.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_takes_no_longer_than_its_deadline() {
    let stage = Stage::set(Dialect::Postgres).await;
    let stalled = stall::runs_of(&stage, "a1").await;
    let deadlines = [
        ("WAKEGATE_SHUTDOWN_DEADLINE_MS", "100"),
        ("WAKEGATE_DATABASE_RECORD_DEADLINE_MS", "60000"),
    ];
    let mut worker = stage.worker_with(&deadlines).await;
    stage.publish(&assignment("t1", "a1", 1)).await;
    let stuck = "SELECT count(*) FROM pg_stat_activity
                 WHERE application_name = 'wakegate' AND wait_event_type = 'Lock'";
    stage.until_number(stuck, 1).await;
    worker.signal("TERM");
    assert!(worker.ended().await.success(), "{}", worker.log());
    assert!(worker.log().contains("the deadline of the shutdown is over"), "{}", worker.log());
    stalled.no_more(&stage).await;
    // What was in work then is delivered again.
    stage.catch_up();
    assert_eq!(stage.outside.run_count().await, 1);
}
