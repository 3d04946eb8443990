//! Operators are answered while every lane and every connection of the data path is stuck.

use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::Connection as _;

use super::asking::{ask, until_answering};
use crate::harness::until_some;
use crate::harness::worker::Worker;
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Setting, Stage};
use crate::through_servers::story::assignment;

on_both_databases!(operators_are_answered_while_a_backlog_is_decided);

const LANES: u32 = 4;
const BATCH: u32 = 5;
const CONNECTIONS: u32 = 4;
const DEADLINE: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn operators_are_answered_while_the_data_path_waits_for_a_lock_on_runs() {
    let setting = Setting { partitions: LANES, batch_wakes_max: BATCH, ..Setting::default() };
    let stage = Stage::with(Dialect::Postgres, setting).await;
    let mut command = stage.command(&["run"]);
    command.env("WAKEGATE_DATABASE_CONNECTIONS_MAX", CONNECTIONS.to_string());
    command.env("WAKEGATE_DATABASE_READ_DEADLINE_MS", "60000");
    command.env("WAKEGATE_DATABASE_RECORD_DEADLINE_MS", "60000");
    command.env("WAKEGATE_LANES_STORE_AWAY_GIVE_UP_MS", "3600000");
    command.env("WAKEGATE_CONTROL_DEADLINE_MS", DEADLINE.as_millis().to_string());
    let worker = Worker::spawn(command).await;
    worker.ready().await;
    let client = stage.nats.client().await;
    until_answering(&client).await;
    for nth in 0..100 {
        stage.publish(&assignment(&format!("t{nth}"), "a1", 1)).await;
    }
    stage.settled().await;
    let mut lock = sqlx::PgConnection::connect(&stage.database_url).await.unwrap();
    let sql = "BEGIN; LOCK TABLE runs IN ACCESS EXCLUSIVE MODE";
    sqlx::raw_sql(sql).execute(&mut lock).await.unwrap();
    for nth in 0..400 {
        stage.publish(&assignment(&format!("u{nth}"), "a1", 1)).await;
    }
    // Every lane holds all that it may, and of the worker's connections some wait for the lock.
    for lane in 0..LANES {
        let all = 2 * BATCH as usize;
        let full = |info: &async_nats::jetstream::consumer::Info| info.num_ack_pending == all;
        stage.until_lane(lane, "the lanes never filled", full).await;
    }
    let stuck = "SELECT count(*) FROM pg_stat_activity
                 WHERE application_name = 'wakegate' AND wait_event_type = 'Lock'";
    stage.until_number(stuck, i64::from(CONNECTIONS / 2)).await;

    let mut slowest = Duration::ZERO;
    for nth in 0..20 {
        let asked = Instant::now();
        let organization = format!("o{nth}");
        let by = json!({
            "scope": "organization", "organization_id": organization, "actor": "a", "reason": "r",
        });
        assert_eq!(ask(&client, "pause", by.clone()).await.unwrap()["created"], true);
        ask(&client, "pauses", json!({})).await.unwrap();
        assert_eq!(ask(&client, "resume", by).await.unwrap()["released"], true);
        let agent = json!({
            "organization_id": organization, "agent_profile_id": "a", "status": "stopped",
            "actor": "a", "reason": "r",
        });
        ask(&client, "agent.set", agent).await.unwrap();
        ask(&client, "agent.list", json!({})).await.unwrap();
        let health = ask(&client, "health", json!({})).await.unwrap();
        assert_eq!(health["lanes"].as_array().unwrap().len(), LANES as usize);
        ask(&client, "configuration", json!({})).await.unwrap();
        slowest = slowest.max(asked.elapsed());
    }
    assert!(slowest < Duration::from_secs(10), "seven requests took {slowest:?}");
    // What cannot be counted is named, and the rest is counted.
    let counts = ask(&client, "counts", json!({})).await.unwrap();
    assert_eq!(counts["agents"], json!({ "stopped": 20 }));
    assert_eq!(counts["refusals"]["by_reason"], json!({}));
    assert_eq!(counts["unanswered"][0]["count"], "queued_runs", "{counts}");
    assert_eq!(counts["unanswered"].as_array().unwrap().len(), 1);
    // And it is not that the lanes moved on meanwhile.
    assert!(stage.outside.number(stuck).await >= i64::from(CONNECTIONS / 2));

    let platform = json!({ "scope": "platform", "actor": "a", "reason": "r" });
    ask(&client, "pause", platform).await.unwrap();
    sqlx::raw_sql("ROLLBACK").execute(&mut lock).await.unwrap();
    stage.settled().await;
    let refused = "SELECT count(*) FROM refused_wakes WHERE reason = 'platform_paused'";
    let refused = stage.outside.number(refused).await;
    assert!(refused > 0, "the pause that was made meanwhile was seen as soon as it went on");
    assert_eq!(stage.outside.run_count().await + refused, 500);
}

async fn operators_are_answered_while_a_backlog_is_decided(dialect: Dialect) {
    let setting = Setting { partitions: LANES, batch_wakes_max: BATCH, ..Setting::default() };
    let stage = Stage::with(dialect, setting).await;
    let mut publishes = Vec::new();
    for nth in 0..3_000 {
        let event = assignment(&format!("t{nth}"), "a1", 1);
        let subject = crate::through_servers::stage::subject(&event);
        publishes.push(stage.context.publish(subject, event.body.clone()).await.unwrap());
    }
    for publish in publishes {
        publish.await.unwrap();
    }
    let mut command = stage.command(&["run"]);
    // SQLite has one writer at a time, and on a busy machine a pause waits for its turn.
    command.env("WAKEGATE_CONTROL_DEADLINE_MS", "9000");
    let worker = Worker::spawn(command).await;
    let client = stage.nats.client().await;
    until_answering(&client).await;
    let mut rounds = 0;
    let decided = async || {
        let by = json!({
            "scope": "organization", "organization_id": "o", "actor": "a", "reason": "r",
        });
        ask(&client, "pause", by.clone()).await.unwrap();
        let counts = ask(&client, "counts", json!({})).await.unwrap();
        assert_eq!(counts.get("unanswered"), None, "{counts}");
        ask(&client, "resume", by).await.unwrap();
        rounds += 1;
        (counts["queued_runs"] == 3_000).then_some(())
    };
    until_some(decided, || worker.told("it never decided all")).await;
    assert!(rounds > 0, "operators were answered");
    stage.settled().await;
}
