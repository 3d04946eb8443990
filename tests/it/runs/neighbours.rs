//! One organization floods, nine have a run now and then: nobody waits for the flood.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_nats::Client;
use serde_json::json;
use tokio::task::JoinSet;

use super::asking::{ask, client_of, held, queue, until_answering, with};
use super::events::{told, until_told};
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Stage};

on_both_databases!(nobody_waits_for_a_neighbour_that_floods);

const FLOOD: u128 = 400;
const NEIGHBOURS: u8 = 9;
const ROUNDS: usize = 6;
const RUNNERS: u8 = 4;
/// Claims between a neighbour's run being there and its turn: in an empty system its turn is next. In
/// a flooded one each of four runners may be amid a claim, and each of nine neighbours have its turn first.
const TURNS_MAX: i64 = 13;

async fn work(client: Client, over: Arc<AtomicBool>) {
    while !over.load(Ordering::SeqCst) {
        let claim = json!({ "runner_id": "r", "wait_seconds": 1 });
        let reply = ask(&client, "claim", claim).await.unwrap();
        for run in reply["runs"].as_array().unwrap() {
            ask(&client, "start", held(run)).await.unwrap();
            let end = with(held(run), json!({ "status": "succeeded" }));
            ask(&client, "finish", end).await.unwrap();
        }
    }
}

async fn nobody_waits_for_a_neighbour_that_floods(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    for nth in 0..FLOOD {
        queue(&stage.outside, nth + 1, "flood").await;
    }
    let worker = stage.worker().await;
    let client = client_of(&stage).await;
    until_answering(&client).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut runners = JoinSet::new();
    for _ in 0..RUNNERS {
        runners.spawn(work(client_of(&stage).await, Arc::clone(&over)));
    }
    let claims = "SELECT CAST(coalesce(sum(fencing_token), 0) AS bigint) FROM runs";
    let mut before = BTreeMap::new();
    let mut id = FLOOD;
    for _ in 0..ROUNDS {
        for neighbour in 0..NEIGHBOURS {
            id += 1;
            let run = queue(&stage.outside, id, &format!("n{neighbour}")).await;
            // It is there by now, and may have had its turn.
            before.insert(run, stage.outside.number(claims).await);
        }
        // They trickle: the next ones come when these have had their turn.
        let waiting =
            "SELECT 0 - count(*) FROM runs WHERE status = 'queued' AND organization_id <> 'flood'";
        stage.until_number(waiting, 0).await;
    }
    let left = "SELECT count(*) FROM runs WHERE status = 'queued'";
    assert!(stage.outside.number(left).await > 0, "the flood is still there");
    over.store(true, Ordering::SeqCst);
    runners.join_all().await;
    until_told(&stage).await;
    let mut turn = 0;
    for told in told(&stage).await {
        if told.event["event"] != "claimed" {
            continue;
        }
        turn += 1;
        if let Some(before) = before.remove(told.event["run_id"].as_str().unwrap()) {
            let waited = turn - before;
            assert!(waited <= TURNS_MAX, "{}", worker.told(&format!("{waited} turns: {told:?}")));
        }
    }
    assert!(before.is_empty(), "each had its turn: {before:?}");
}
