//! Claims that wait are answered as soon as there is work, wherever it was made, and nobody polls.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::asking::{
    ask, claim, claim_one, client_of, held, queue, refusal, until_answering, with, worker,
};
use crate::harness::until_some;
use crate::harness::worker::Worker;
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Stage};
use crate::through_servers::story::assignment;

on_both_databases!(
    a_claim_that_waits_is_answered_by_the_run_that_is_admitted,
    a_claim_that_waits_is_answered_by_the_slot_that_is_freed,
    a_wait_ends_and_beyond_the_room_nobody_waits,
    the_end_of_a_worker_answers_who_waits,
);

/// So that whoever is answered sooner was told that there is work.
const NEVER: (&str, &str) = ("WAKEGATE_QUEUE_LOOK_AGAIN_MS", "60000");

const WAITING: &str = "wakegate_claims_waiting";

async fn waiting(worker: &Worker) -> f64 {
    worker.scrape().await[WAITING]
}

/// Waits until so many claims wait at a worker.
pub async fn until_waiting(worker: &Worker, claims: f64) {
    let look = async || (waiting(worker).await >= claims).then_some(());
    until_some(look, || worker.told("no claim waits")).await;
}

async fn a_claim_that_waits_is_answered_by_the_run_that_is_admitted(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let (worker, client) = worker(&stage, &[NEVER]).await;
    let mut claims = JoinSet::new();
    claims.spawn(async move { claim(&client, 5, 60).await });
    until_waiting(&worker, 1.0).await;
    let admitted = Instant::now();
    stage.publish(&assignment("t1", "a1", 1)).await;
    let runs = claims.join_next().await.unwrap().unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["task_id"], "t1");
    assert!(admitted.elapsed() < Duration::from_secs(30), "it was told that there is work");
}

async fn a_claim_that_waits_is_answered_by_the_slot_that_is_freed(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let one =
        "INSERT INTO organization_limits (organization_id, active_runs_max) VALUES ('acme', 1)";
    stage.outside.execute(one).await;
    let (worker, client) = worker(&stage, &[NEVER]).await;
    for id in 1..=2 {
        queue(&stage.outside, id, "acme").await;
    }
    let first = claim_one(&client).await;
    let mut claims = JoinSet::new();
    let other = client.clone();
    claims.spawn(async move { claim(&other, 1, 60).await });
    until_waiting(&worker, 1.0).await;
    let freed = Instant::now();
    let end = with(held(&first), json!({ "status": "cancelled" }));
    ask(&client, "finish", end).await.unwrap();
    assert_eq!(claims.join_next().await.unwrap().unwrap().len(), 1);
    assert!(freed.elapsed() < Duration::from_secs(30), "it was told that there is a slot");
}

async fn a_wait_ends_and_beyond_the_room_nobody_waits(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let room = ("WAKEGATE_QUEUE_WAITERS_MAX", "2");
    let longest = ("WAKEGATE_QUEUE_WAIT_SECONDS_MAX", "3");
    let (worker, client) = worker(&stage, &[room, longest]).await;
    let mut claims = JoinSet::new();
    for _ in 0..2 {
        let client = client.clone();
        claims.spawn(async move { claim(&client, 1, 300).await });
    }
    until_waiting(&worker, 2.0).await;
    let one_more = json!({ "runner_id": "r", "wait_seconds": 300 });
    assert_eq!(refusal(&client, "claim", one_more).await, "busy");
    // Whoever has a run is answered all the same.
    let unknown = json!({ "run_id": uuid::Uuid::nil(), "fencing_token": 1 });
    assert_eq!(refusal(&client, "heartbeat", unknown).await, "unknown_run");
    for runs in claims.join_all().await {
        assert_eq!(runs, Vec::<Value>::new(), "no longer than queue.wait_seconds_max");
    }
    let series = worker.scrape().await;
    assert_eq!(series["wakegate_claims_total{answer=\"busy\"}"].to_string(), "1");
    assert_eq!(series["wakegate_claims_total{answer=\"empty\"}"].to_string(), "2");
}

async fn the_end_of_a_worker_answers_who_waits(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let (mut worker, client) = worker(&stage, &[]).await;
    let mut claims = JoinSet::new();
    claims.spawn(async move { claim(&client, 1, 60).await });
    until_waiting(&worker, 1.0).await;
    let asked = Instant::now();
    worker.signal("TERM");
    assert_eq!(claims.join_next().await.unwrap().unwrap(), Vec::<Value>::new());
    assert!(worker.ended().await.success());
    assert!(asked.elapsed() < Duration::from_secs(30));
}

/// Whoever admits a run tells the other workers, so that a claim is answered wherever it waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_waits_is_answered_by_a_run_that_another_replica_admits() {
    const CLAIMS: u32 = 24;
    let stage = Stage::set(Dialect::Postgres).await;
    let workers = [stage.worker_with(&[NEVER]).await, stage.worker_with(&[NEVER]).await];
    let client = client_of(&stage).await;
    until_answering(&client).await;
    let mut claims = JoinSet::new();
    for _ in 0..CLAIMS {
        let client = client.clone();
        claims.spawn(async move { claim(&client, 1, 60).await });
    }
    // There is one lane: what one of them admits, the other only hears of.
    let all = async || {
        let at = [waiting(&workers[0]).await, waiting(&workers[1]).await];
        (at[0] + at[1] >= f64::from(CLAIMS) && at[0] > 0.0 && at[1] > 0.0).then_some(())
    };
    until_some(all, || "claims do not wait at both".to_owned()).await;
    let admitted = Instant::now();
    for nth in 0..CLAIMS {
        stage.publish(&assignment(&format!("t{nth}"), "a1", 1)).await;
    }
    let mut tasks = std::collections::BTreeSet::new();
    for runs in claims.join_all().await {
        let [run] = runs.as_slice() else { panic!("one run a claim: {runs:?}") };
        tasks.insert(run["task_id"].as_str().unwrap().to_owned());
    }
    assert_eq!(tasks.len(), CLAIMS as usize, "no run was given twice");
    assert!(admitted.elapsed() < Duration::from_secs(40), "they were told that there is work");
}
