//! The broker goes away, or loses what the worker works on.

use super::on_both_databases;
use super::stage::{Dialect, Setting, Stage};
use super::stall::Stall;
use super::story::{assignment, by_agent};

on_both_databases!(a_broker_that_crashes_and_comes_back_costs_nothing_but_time);

async fn a_broker_that_crashes_and_comes_back_costs_nothing_but_time(dialect: Dialect) {
    let setting = Setting { partitions: 2, batch_wakes_max: 10, ..Setting::default() };
    let mut stage = Stage::with(dialect, setting).await;
    let mut worker = stage.worker().await;
    for nth in 0..20 {
        stage.publish(&by_agent(&format!("t{}", nth % 4), &format!("a{nth}"))).await;
    }
    let stall = Stall::records(&stage).await;
    for nth in 20..40 {
        stage.publish(&by_agent(&format!("t{}", nth % 4), &format!("a{nth}"))).await;
    }
    stage.nats.kill();
    let readyz = worker.until_readyz("it is ready", |answer| answer.status == 503).await;
    assert_eq!(readyz["ready"], false);
    stall.release().await;
    let away = |answer: &crate::harness::http::Answer| {
        answer.json()["components"]["nats"]["state"] == "waiting"
    };
    worker.until_readyz("the broker is not named", away).await;
    stage.nats.start_again().await;
    worker.ready().await;
    let last = stage.publish_for_outcome(&assignment("last", "a1", 1)).await;
    assert_eq!(last["outcome"], "queued", "{}", worker.log());
    stage.settled().await;

    assert!(worker.runs(), "{}", worker.log());
    assert_eq!(stage.outside.run_count().await, 4 * 5 + 1, "five of each task, and the last");
    let refused = stage.outside.number("SELECT count(*) FROM refused_wakes").await;
    assert_eq!(refused, 20);
    let mut audited = stage.audited().await;
    audited.sort_by(|a, b| a.message_id.cmp(&b.message_id));
    audited.dedup();
    assert_eq!(audited.len(), 20, "each refusal is told, and told the same");
    // The first five of each task by stream sequence, whatever was delivered again.
    let mut agents: Vec<u64> = stage
        .outside
        .runs()
        .await
        .iter()
        .filter(|run| run.task_id.as_deref() != Some("last"))
        .map(|run| run.agent_profile_id[1..].parse().unwrap())
        .collect();
    agents.sort_unstable();
    assert_eq!(agents, (0..20).collect::<Vec<u64>>());
}

#[tokio::test]
async fn a_consumer_or_stream_deleted_under_the_worker_ends_it_with_what_to_run() {
    for what in ["consumer", "stream"] {
        let stage = Stage::set(Dialect::Sqlite).await;
        let mut worker = stage.worker().await;
        stage.publish_for_outcome(&assignment("t1", "a1", 1)).await;
        if what == "consumer" {
            stage.context.delete_consumer_from_stream("lane-0", "WAKES").await.unwrap();
        } else {
            stage.context.delete_stream("WAKES").await.unwrap();
        }
        let status = worker.ended().await;
        assert_eq!(status.code(), Some(1), "{what}: {}", worker.log());
        worker.until_logged("is gone").await;
        assert!(worker.log().contains("wakegate streams apply"), "{}", worker.log());
    }
}
