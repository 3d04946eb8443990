//! Runners and operators are answered while every lane is stuck, and while a backlog is decided.

use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::Connection as _;

use super::asking::{ask, claim, client_of, held, queue, until_answering, with};
use crate::control::asking::ask as ask_control;
use crate::harness::until_some;
use crate::harness::worker::Worker;
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Setting, Stage, subject};
use crate::through_servers::story::assignment;

on_both_databases!(runners_are_answered_while_a_backlog_is_decided);

const LANES: u32 = 4;
const BATCH: u32 = 5;
const CONNECTIONS: u32 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn runners_are_answered_while_the_data_path_waits_for_a_lock() {
    let setting = Setting { partitions: LANES, batch_wakes_max: BATCH, ..Setting::default() };
    let stage = Stage::with(Dialect::Postgres, setting).await;
    let mut command = stage.command(&["run"]);
    command.env("WAKEGATE_DATABASE_CONNECTIONS_MAX", CONNECTIONS.to_string());
    command.env("WAKEGATE_DATABASE_READ_DEADLINE_MS", "60000");
    command.env("WAKEGATE_DATABASE_RECORD_DEADLINE_MS", "60000");
    command.env("WAKEGATE_LANES_STORE_AWAY_GIVE_UP_MS", "3600000");
    let worker = Worker::spawn(command).await;
    worker.ready().await;
    let client = client_of(&stage).await;
    until_answering(&client).await;
    for id in 1..=20 {
        queue(&stage.outside, id, "acme").await;
    }
    let mut lock = sqlx::PgConnection::connect(&stage.database_url).await.unwrap();
    let sql = "BEGIN; LOCK TABLE wake_keys IN ACCESS EXCLUSIVE MODE";
    sqlx::raw_sql(sql).execute(&mut lock).await.unwrap();
    for nth in 0..400 {
        stage.publish(&assignment(&format!("u{nth}"), "a1", 1)).await;
    }
    for lane in 0..LANES {
        let all = 2 * BATCH as usize;
        let full = |info: &async_nats::jetstream::consumer::Info| info.num_ack_pending == all;
        stage.until_lane(lane, "the lanes never filled", full).await;
    }

    let mut slowest = Duration::ZERO;
    for nth in 0..20 {
        let asked = Instant::now();
        let runs = claim(&client, 1, 0).await;
        assert_eq!(runs.len(), 1, "{nth}");
        ask(&client, "start", held(&runs[0])).await.unwrap();
        ask(&client, "heartbeat", held(&runs[0])).await.unwrap();
        let end = with(held(&runs[0]), json!({ "status": "succeeded" }));
        ask(&client, "finish", end).await.unwrap();
        ask_control(&client, "pauses", json!({})).await.unwrap();
        slowest = slowest.max(asked.elapsed());
    }
    assert!(slowest < Duration::from_secs(10), "five requests took {slowest:?}");
    assert_eq!(stage.outside.run_count().await, 20, "no lane has moved meanwhile");
    sqlx::raw_sql("ROLLBACK").execute(&mut lock).await.unwrap();
    stage.settled().await;
    assert_eq!(stage.outside.run_count().await, 420);
}

async fn runners_are_answered_while_a_backlog_is_decided(dialect: Dialect) {
    const WAKES: u32 = 2_000;
    let setting = Setting { partitions: LANES, batch_wakes_max: BATCH, ..Setting::default() };
    let stage = Stage::with(dialect, setting).await;
    let mut publishes = Vec::new();
    for nth in 0..WAKES {
        let event = assignment(&format!("t{nth}"), "a1", 1);
        publishes.push(stage.context.publish(subject(&event), event.body.clone()).await.unwrap());
    }
    for publish in publishes {
        publish.await.unwrap();
    }
    let worker = stage.worker_starting().await;
    let client = client_of(&stage).await;
    until_answering(&client).await;
    let (mut rounds, mut done) = (0, 0);
    while stage.outside.run_count().await < i64::from(WAKES) {
        rounds += 1;
        for run in claim(&client, 3, 1).await {
            ask(&client, "start", held(&run)).await.unwrap();
            let end = with(held(&run), json!({ "status": "succeeded" }));
            ask(&client, "finish", end).await.unwrap();
            done += 1;
        }
    }
    assert!(rounds > 0 && done > 0, "{}", worker.told("runners were answered meanwhile"));
    stage.settled().await;
    let ended = "SELECT count(*) FROM runs WHERE status = 'succeeded'";
    assert_eq!(stage.outside.number(ended).await, done);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_runners_beyond_those_in_work_are_answered_busy_at_once() {
    const REQUESTS_MAX: usize = 3;
    let stage = Stage::set(Dialect::Postgres).await;
    let max = REQUESTS_MAX.to_string();
    let variables = [
        ("WAKEGATE_QUEUE_REQUESTS_MAX", max.as_str()),
        ("WAKEGATE_QUEUE_DEADLINE_MS", "60000"),
        ("WAKEGATE_QUEUE_KEEPER_INTERVAL_MS", "60000"),
    ];
    let worker = stage.worker_with(&variables).await;
    let client = client_of(&stage).await;
    until_answering(&client).await;
    let mut lock = sqlx::PgConnection::connect(&stage.database_url).await.unwrap();
    let sql = "BEGIN; LOCK TABLE runs IN ACCESS EXCLUSIVE MODE";
    sqlx::raw_sql(sql).execute(&mut lock).await.unwrap();
    let beat =
        |nth: usize| json!({ "run_id": uuid::Uuid::from_u128(nth as u128), "fencing_token": 1 });
    let mut stuck = tokio::task::JoinSet::new();
    for nth in 0..REQUESTS_MAX {
        let client = client.clone();
        stuck.spawn(async move { ask(&client, "heartbeat", beat(nth)).await });
    }
    let full = async || {
        let refused = ask(&client, "heartbeat", json!({})).await.unwrap_err();
        (refused.code() == "busy").then_some(refused.number)
    };
    let number = until_some(full, || worker.told("it is never full")).await;
    assert_eq!(number, "429");
    // A claim waits at the desk and not among the requests.
    let nobody = json!({ "runner_id": "" });
    assert_eq!(ask(&client, "claim", nobody).await.unwrap_err().code(), "invalid_field");
    sqlx::raw_sql("ROLLBACK").execute(&mut lock).await.unwrap();
    for answer in stuck.join_all().await {
        assert_eq!(answer.unwrap_err().code(), "unknown_run");
    }
}
