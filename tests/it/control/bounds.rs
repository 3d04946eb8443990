//! What is in work is bounded, and what is beyond is told so at once.

use async_nats::Client;
use serde_json::{Value, json};
use sqlx::Connection as _;

use super::asking::{Refused, ask, until_answering};
use crate::harness::until_some;
use crate::harness::worker::Worker;
use crate::through_servers::stage::{Dialect, Stage};

fn pause(nth: usize) -> Value {
    json!({
        "scope": "organization", "organization_id": nth.to_string(), "actor": "a", "reason": "r",
    })
}

/// A worker that takes this many requests, and a client.
async fn answering(stage: &Stage, requests_max: usize) -> (Worker, Client) {
    let mut command = stage.command(&["run"]);
    command.env("WAKEGATE_CONTROL_REQUESTS_MAX", requests_max.to_string());
    command.env("WAKEGATE_CONTROL_DEADLINE_MS", "60000");
    let worker = Worker::spawn(command).await;
    let options = async_nats::ConnectOptions::new().request_timeout(Some(crate::harness::PATIENCE));
    let client = stage.nats.client_with(options).await;
    until_answering(&client).await;
    (worker, client)
}

/// Of the requests for locks on a table.
fn waiting_for(table: &str) -> String {
    format!(
        "SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
         WHERE c.relname = '{table}' AND NOT l.granted"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_beyond_those_in_work_are_answered_busy_at_once() {
    const REQUESTS_MAX: usize = 3;
    let stage = Stage::set(Dialect::Postgres).await;
    let (_worker, client) = answering(&stage, REQUESTS_MAX).await;
    let mut lock = sqlx::PgConnection::connect(&stage.database_url).await.unwrap();
    let sql = "BEGIN; LOCK TABLE pauses IN ACCESS EXCLUSIVE MODE";
    sqlx::raw_sql(sql).execute(&mut lock).await.unwrap();

    let mut stuck = tokio::task::JoinSet::new();
    for nth in 0..REQUESTS_MAX {
        let client = client.clone();
        stuck.spawn(async move { ask(&client, "pause", pause(nth)).await });
    }
    stage.until_number(&waiting_for("pauses"), 1).await;
    // One has the connection that writes, the others wait for it: all are in work, once the next
    // one is too many.
    let full = async || {
        let refused = ask(&client, "health", json!({})).await.err()?;
        assert_eq!((refused.code(), refused.number.as_str()), ("busy", "429"), "{refused:?}");
        Some(refused)
    };
    let refused: Refused = until_some(full, || "it was never full".to_owned()).await;
    assert!(refused.error["message"].as_str().unwrap().contains("3 requests"), "{refused:?}");
    for verb in ["pause", "agent.get", "counts", "configuration"] {
        assert_eq!(ask(&client, verb, pause(9)).await.unwrap_err().code(), "busy", "{verb}");
    }
    assert!(stuck.try_join_next().is_none(), "nothing was answered meanwhile");

    sqlx::raw_sql("ROLLBACK").execute(&mut lock).await.unwrap();
    for answer in stuck.join_all().await {
        assert_eq!(answer.unwrap()["created"], true);
    }
    ask(&client, "health", json!({})).await.unwrap();
    assert_eq!(stage.outside.number("SELECT count(*) FROM pauses").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_count_at_a_time_and_no_line_behind_it() {
    let stage = Stage::set(Dialect::Postgres).await;
    let (_worker, client) = answering(&stage, 32).await;
    let mut lock = sqlx::PgConnection::connect(&stage.database_url).await.unwrap();
    let sql = "BEGIN; LOCK TABLE runs IN ACCESS EXCLUSIVE MODE";
    sqlx::raw_sql(sql).execute(&mut lock).await.unwrap();
    let mut counting = tokio::task::JoinSet::new();
    counting.spawn({
        let client = client.clone();
        async move { ask(&client, "counts", json!({})).await }
    });
    stage.until_number(&waiting_for("runs"), 1).await;
    for _ in 0..40 {
        assert_eq!(ask(&client, "counts", json!({})).await.unwrap_err().code(), "busy");
    }
    // Whoever asks or changes something else is answered meanwhile.
    ask(&client, "pause", pause(1)).await.unwrap();
    assert_eq!(ask(&client, "pauses", json!({})).await.unwrap()["pauses"][0]["actor"], "a");
    sqlx::raw_sql("ROLLBACK").execute(&mut lock).await.unwrap();
    assert_eq!(counting.join_all().await.remove(0).unwrap()["queued_runs"], 0);
}
