//! A worker that is killed when a claim is on record and its answer has not left: whoever asked asks
//! again, of whichever worker, and has the same runs; who does not leaves them to the lease.

use std::time::Duration;

use async_nats::{Client, Subscriber};
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};

use super::asking::{ask, ask_until_answered, client_of, depth, held, refusal, until_answering};
use super::waiting::until_waiting;
use crate::harness::outside::OutsideRun;
use crate::harness::proxy::{Manner, Proxy, port_of};
use crate::harness::worker::Worker;
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Stage};

on_both_databases!(
    a_claim_whose_worker_was_killed_before_it_answered_is_asked_again,
    a_claim_whose_worker_was_killed_and_is_not_asked_again_gives_its_runs_back,
);

/// Runs that come while the claim waits: id, organization, microseconds after the first. By its id the
/// first of them would be among the last.
const RUNS: [(u128, &str, i64); 4] =
    [(5, "acme", 0), (4, "other", 1), (3, "acme", 2), (9, "acme", 3)];
/// As many as the claim takes of them.
const TAKEN: i64 = 3;
const CLAIMED: &str = "SELECT count(*) FROM runs WHERE status = 'claimed'";

/// A claim on its way, whose answer would come here.
struct Asked {
    client: Client,
    body: Value,
    inbox: Subscriber,
}

impl Asked {
    /// Until it waits at that worker.
    async fn of(stage: &Stage, worker: &Worker, lease_seconds: u32) -> Self {
        let client = client_of(stage).await;
        until_answering(&client).await;
        let body = json!({
            "runner_id": "r1", "claim_id": uuid::Uuid::from_u128(7), "runs_max": TAKEN,
            "wait_seconds": 60, "lease_seconds": lease_seconds,
        });
        let inbox = client.new_inbox();
        let arriving = client.subscribe(inbox.clone()).await.unwrap();
        let bytes = body.to_string().into();
        client.publish_with_reply("wakegate.runs.claim", inbox, bytes).await.unwrap();
        client.flush().await.unwrap();
        until_waiting(worker, 1.0).await;
        Self { client, body, inbox: arriving }
    }

    /// Everything that the server had for it is here, and it is nothing.
    async fn assert_unanswered(&mut self) {
        self.client.flush().await.unwrap();
        let answer = self.inbox.next().now_or_never().flatten();
        assert!(answer.is_none(), "its answer has left: {answer:?}");
    }
}

/// A worker whose answers to runners go through a proxy, and which itself looks after nothing.
async fn behind(stage: &Stage, proxy: &Proxy) -> Worker {
    let url = proxy.url(&stage.nats.url());
    stage
        .worker_with(&[
            ("WAKEGATE_QUEUE_NATS_URL", &url),
            ("WAKEGATE_QUEUE_LOOK_AGAIN_MS", "20"),
            ("WAKEGATE_QUEUE_KEEPER_INTERVAL_MS", "60000"),
        ])
        .await
}

/// The claim waits at a worker from which nothing gets out any more; then there are runs, it takes
/// them, and is killed once that is on record.
async fn kill_amid_claim(stage: &Stage, proxy: &Proxy, worker: Worker, asked: &mut Asked) {
    proxy.set(Manner::Stall);
    stage.outside.pause("p", None).await;
    for (id, organization, later) in RUNS {
        let at = OutsideRun::default().at + later;
        let run = OutsideRun { id, organization, at, ..OutsideRun::default() };
        stage.outside.insert_run(&run).await;
    }
    stage.outside.resume_all().await;
    stage.until_number(CLAIMED, TAKEN).await;
    worker.kill();
    assert_eq!(stage.outside.number(CLAIMED).await, TAKEN);
    proxy.set(Manner::Refuse);
    asked.assert_unanswered().await;
}

/// Runs and their tokens, in order.
fn given(reply: &Value) -> Vec<(u128, u64)> {
    let runs = reply["runs"].as_array().unwrap().iter();
    let id = |run: &Value| run["run_id"].as_str().unwrap().parse::<uuid::Uuid>().unwrap();
    runs.map(|run| (id(run).as_u128(), run["fencing_token"].as_u64().unwrap())).collect()
}

/// As a runner that hears nothing.
async fn ask_again(client: &Client, body: &Value) -> Value {
    ask_until_answered(client, "claim", body, Duration::from_secs(2)).await.unwrap()
}

async fn a_claim_whose_worker_was_killed_before_it_answered_is_asked_again(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let proxy = Proxy::before(port_of(&stage.nats.url())).await;
    let worker = behind(&stage, &proxy).await;
    let mut asked = Asked::of(&stage, &worker, 3_600).await;
    // Another replica is there already; on SQLite the one there is is started again.
    let replica = match dialect {
        Dialect::Postgres => Some(stage.worker().await),
        Dialect::Sqlite => None,
    };
    kill_amid_claim(&stage, &proxy, worker, &mut asked).await;
    let _replica = match replica {
        Some(replica) => replica,
        None => stage.worker().await,
    };
    let again = ask_again(&asked.client, &asked.body).await;
    assert_eq!(given(&again), [(5, 1), (4, 1), (3, 1)], "the same runs, of the same claim");
    assert_eq!(depth(&stage.outside).await, (1, 3), "and no other");
    for run in again["runs"].as_array().unwrap() {
        ask(&asked.client, "start", held(run)).await.unwrap();
    }
    asked.assert_unanswered().await;
}

async fn a_claim_whose_worker_was_killed_and_is_not_asked_again_gives_its_runs_back(
    dialect: Dialect,
) {
    let stage = Stage::set(dialect).await;
    let proxy = Proxy::before(port_of(&stage.nats.url())).await;
    let worker = behind(&stage, &proxy).await;
    let mut asked = Asked::of(&stage, &worker, 1).await;
    kill_amid_claim(&stage, &proxy, worker, &mut asked).await;
    let _next = stage.worker_with(&[("WAKEGATE_QUEUE_KEEPER_INTERVAL_MS", "20")]).await;
    until_answering(&asked.client).await;
    stage.until_number("SELECT queued FROM queue_platform", 4).await;
    let others = json!({ "runner_id": "r2", "runs_max": 9 });
    let others = ask_again(&asked.client, &others).await;
    // Who was served counts as served; within an organization each is in its place.
    let mut expected = vec![(5, 2), (4, 2), (3, 2), (9, 1)];
    let mut found = given(&others);
    let of_acme: Vec<_> = found.iter().filter(|(id, _)| *id != 4).copied().collect();
    assert_eq!(of_acme, [(5, 2), (3, 2), (9, 1)], "before what came after them");
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    let old = json!({ "run_id": uuid::Uuid::from_u128(5), "fencing_token": 1 });
    assert_eq!(refusal(&asked.client, "start", old).await, "lease_lost");
    asked.assert_unanswered().await;
}
