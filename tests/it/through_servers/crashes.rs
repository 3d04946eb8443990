//! What a worker that is killed leaves behind, and what the next one makes of it.

use serde_json::Value;

use super::on_both_databases;
use super::stage::{Asked, Dialect, Stage};
use super::stall;
use super::story::assignment;
use crate::harness::until_some;
use crate::harness::worker::{Series, Worker};

on_both_databases!(
    killed_between_commit_and_acknowledgement_a_refusal_is_settled_once,
    a_wake_that_ends_the_process_each_time_is_rejected_and_its_neighbours_are_decided,
    shutdowns_amid_an_attempt_do_not_make_a_wake_poison,
);

const OUTCOMES: [&str; 3] =
    ["wakegate_wakes_total", "wakegate_refusals_total", "wakegate_rejected_total"];

async fn killed_between_commit_and_acknowledgement_a_refusal_is_settled_once(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let worker = stage.worker().await;
    stage.outside.set_agent("acme", "stopped", "stopped").await;
    stage.context.delete_stream("WAKE_AUDIT").await.unwrap();

    let refused = stage.ask(&assignment("t1", "stopped", 1)).await;
    let behind = stage.ask(&assignment("t1", "a1", 1)).await;
    stage.until_number("SELECT count(*) FROM refused_wakes", 1).await;
    let holds = worker.until_readyz("the lane does not hold", |answer| answer.status == 503).await;
    let reason = holds["components"]["lane-0"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("wakegate streams apply"), "{holds}");
    assert_eq!(worker.moved(&OUTCOMES).await, Series::new(), "nothing counts before it is settled");
    assert_eq!(stage.lane(0).await.num_ack_pending, 2, "and nothing is acknowledged");
    worker.kill();

    stage.apply_streams();
    let worker = stage.worker().await;
    let record = stage.outcome(&refused).await;
    assert_eq!(record["reason"], "agent_stopped");
    assert_eq!(stage.outcome(&behind).await["outcome"], "queued");
    stage.settled().await;

    let audited = stage.audited().await;
    let [event] = audited.as_slice() else { panic!("one audit event: {audited:?}") };
    let wake_id = record["wake_id"].as_str().unwrap();
    assert_eq!(event.message_id, format!("{wake_id}.refused.agent_stopped"));
    assert_eq!(event.subject, "wake-audit.refused.agent_stopped.acme");
    assert_eq!(event.record, record);
    assert_eq!(stage.outside.number("SELECT count(*) FROM refused_wakes").await, 1);
    assert_eq!(stage.outside.run_count().await, 1);
    assert!(!worker.moved(&OUTCOMES).await.keys().any(|name| name.contains("refus")));
}

/// Kills a worker once the server has delivered so many messages again.
async fn kill_after_redeliveries(worker: Worker, redelivered: f64) {
    let name = "wakegate_redeliveries_total";
    let look = async || (worker.scrape().await[name] >= redelivered).then_some(());
    until_some(look, || worker.told("not delivered again")).await;
    worker.kill();
}

/// Attempts at the one wake that is not stored, which have begun and not ended. Whoever was killed
/// right after an attempt at its neighbour leaves a note of that too.
fn attempts(good: &Value) -> String {
    let good = good["wake_id"].as_str().unwrap();
    format!(
        "SELECT CAST(coalesce(max(attempts), 0) AS bigint) FROM isolated_wakes \
         WHERE wake_id <> '{good}'"
    )
}

/// Brings a wake of the agent `bad` to the point at which it is worked alone, between two others.
/// Returns the worker that is at its first attempt, and the query for more of them.
async fn isolated(stage: &Stage) -> (Worker, String, [Asked; 2]) {
    let before = stage.ask(&assignment("t1", "good", 1)).await;
    let bad = stage.ask(&assignment("t1", "bad", 1)).await;
    let after = stage.ask(&assignment("t1", "better", 1)).await;
    let worker = stage.worker().await;
    stage.until_lane(0, "not delivered", |info| info.num_ack_pending == 3).await;
    worker.kill();
    kill_after_redeliveries(stage.worker().await, 3.0).await;
    let worker = stage.worker().await;
    let good = stage.outcome(&before).await;
    assert_eq!(good["outcome"], "queued", "decided at its third delivery");
    let attempts = attempts(&good);
    stage.until_number(&attempts, 1).await;
    (worker, attempts, [bad, after])
}

async fn a_wake_that_ends_the_process_each_time_is_rejected_and_its_neighbours_are_decided(
    dialect: Dialect,
) {
    let stage = Stage::set(dialect).await;
    let _stalled = stall::runs_of(&stage, "bad").await;
    let (worker, attempts, [bad, after]) = isolated(&stage).await;
    worker.kill();
    for attempt in [2, 3] {
        let worker = stage.worker().await;
        stage.until_number(&attempts, attempt).await;
        worker.kill();
    }

    let worker = stage.worker().await;
    let record: Value = stage.outcome(&bad).await;
    assert_eq!((&record["outcome"], &record["reason"]), (&"rejected".into(), &"poison".into()));
    assert_eq!(stage.outcome(&after).await["outcome"], "queued");
    stage.settled().await;
    let audited = stage.audited().await;
    let [event] = audited.as_slice() else { panic!("one audit event: {audited:?}") };
    assert_eq!(event.subject, "wake-audit.rejected.poison.acme");
    assert_eq!(event.record["stream_sequence"], bad.sequence);
    assert!(event.record["body_base64"].is_string());
    assert_eq!(stage.outside.run_count().await, 2, "its neighbours run");
    let rejected = worker.scrape().await["wakegate_rejected_total{reason=\"poison\"}"];
    assert!((rejected - 1.0).abs() < f64::EPSILON);
}

async fn shutdowns_amid_an_attempt_do_not_make_a_wake_poison(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let stalled = stall::runs_of(&stage, "bad").await;
    let (mut worker, attempts, [bad, after]) = isolated(&stage).await;
    for _ in 0..3 {
        // It holds by now or soon: what is at fault here could as well be the database.
        worker.until_readyz("the lane does not hold", |answer| answer.status == 503).await;
        worker.signal("TERM");
        assert_eq!(worker.ended().await.code(), Some(0), "{}", worker.log());
        assert_eq!(
            stage.outside.number(&attempts).await,
            0,
            "{}",
            worker.told("an attempt counts")
        );
        worker = stage.worker().await;
        stage.until_number(&attempts, 1).await;
    }
    stalled.no_more(&stage).await;
    assert_eq!(stage.outcome(&bad).await["outcome"], "queued");
    assert_eq!(stage.outcome(&after).await["outcome"], "queued");
    stage.settled().await;
    // The note goes after the acknowledgement.
    stage.until_number(&format!("SELECT 1 - ({attempts})"), 1).await;
}
