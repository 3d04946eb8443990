//! Found as `nats micro` finds services, and who answers what.

use std::collections::BTreeSet;

use async_nats::Client;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use wakegate::control::Verb;

use super::asking::{answer, ask, until_answering};
use crate::harness::{PATIENCE, until_some};
use crate::through_servers::stage::{Dialect, Stage};

/// Requests that two workers share.
const ROUNDS: usize = 20;

/// As many answers to one request as there are workers, by the worker's id.
async fn gather(client: &Client, subject: &str, workers: usize) -> Vec<Value> {
    let inbox = client.new_inbox();
    let mut arriving = client.subscribe(inbox.clone()).await.unwrap();
    client.publish_with_reply(subject.to_owned(), inbox, "".into()).await.unwrap();
    let mut found = Vec::new();
    while found.len() < workers {
        let message = tokio::time::timeout(PATIENCE, arriving.next()).await;
        found.push(answer(&message.expect("every worker answers").unwrap()).unwrap());
    }
    found
}

async fn two_workers(stage: &Stage) -> Client {
    let client = stage.nats.client().await;
    let both = async || {
        let inbox = client.new_inbox();
        let mut arriving = client.subscribe(inbox.clone()).await.unwrap();
        client.publish_with_reply("$SRV.PING.wakegate", inbox, "".into()).await.unwrap();
        client.flush().await.unwrap();
        let mut found = 0;
        let short = std::time::Duration::from_millis(300);
        while let Ok(Some(message)) = tokio::time::timeout(short, arriving.next()).await {
            found += usize::from(message.status.is_none());
        }
        (found == 2).then_some(())
    };
    until_some(both, || "two workers never answered".to_owned()).await;
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_found_and_described_as_one_service() {
    let stage = Stage::set(Dialect::Postgres).await;
    let (first, second) = (stage.worker_starting().await, stage.worker_starting().await);
    let client = two_workers(&stage).await;

    let pings = gather(&client, "$SRV.PING.wakegate", 2).await;
    let ids: BTreeSet<&str> = pings.iter().map(|ping| ping["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2, "each is an instance of its own");
    let processes: BTreeSet<&str> =
        pings.iter().map(|ping| ping["metadata"]["process"].as_str().unwrap()).collect();
    let (first, second) = (first.id().to_string(), second.id().to_string());
    assert_eq!(processes, BTreeSet::from([first.as_str(), second.as_str()]));
    for ping in &pings {
        assert_eq!(ping["type"], "io.nats.micro.v1.ping_response");
        assert_eq!(ping["name"], "wakegate");
        assert_eq!(ping["version"], env!("CARGO_PKG_VERSION"));
    }

    for info in gather(&client, "$SRV.INFO.wakegate", 2).await {
        assert_eq!(info["type"], "io.nats.micro.v1.info_response");
        let id = info["id"].as_str().unwrap();
        let endpoints = info["endpoints"].as_array().unwrap();
        let subjects: BTreeSet<&str> =
            endpoints.iter().map(|e| e["subject"].as_str().unwrap()).collect();
        let mut expected: BTreeSet<String> = Verb::ALL.map(Verb::subject).into();
        expected.insert(format!("wakegate.control.health.{id}"));
        expected.insert(format!("wakegate.control.configuration.{id}"));
        assert_eq!(subjects, expected.iter().map(String::as_str).collect());
        for endpoint in endpoints {
            let schema = endpoint["metadata"]["request_schema"].as_str().unwrap();
            let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas");
            assert!(root.join(schema).exists(), "{schema}");
        }
    }

    let id = *ids.first().unwrap();
    ask(&client, "pause", json!({})).await.unwrap_err();
    ask(&client, &format!("health.{id}"), json!({ "x": 1 })).await.unwrap_err();
    ask(&client, &format!("health.{id}"), json!({})).await.unwrap();
    let stats = gather(&client, &format!("$SRV.STATS.wakegate.{id}"), 1).await.remove(0);
    assert_eq!(stats["type"], "io.nats.micro.v1.stats_response");
    let endpoints = stats["endpoints"].as_array().unwrap();
    let own = endpoints.iter().find(|e| e["name"] == "health-of-this-worker").unwrap();
    assert_eq!((&own["num_requests"], &own["num_errors"]), (&json!(2), &json!(1)), "{own}");
    assert!(own["last_error"].as_str().unwrap().starts_with("400:unknown_field"), "{own}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_worker_answers_of_the_database_and_each_of_itself() {
    let stage = Stage::set(Dialect::Postgres).await;
    let (first, _second) = (stage.worker_starting().await, stage.worker_starting().await);
    let client = two_workers(&stage).await;

    let healths = gather(&client, "wakegate.control.health", 2).await;
    let ids: Vec<&str> = healths.iter().map(|h| h["worker"]["id"].as_str().unwrap()).collect();
    assert_ne!(ids[0], ids[1], "each answers");
    for id in &ids {
        for verb in ["health", "configuration"] {
            let of_one = ask(&client, &format!("{verb}.{id}"), json!({})).await.unwrap();
            assert_eq!(of_one["worker"]["id"], **id, "{verb}");
        }
    }

    // One answer each: what many of them together would have answered is there in time.
    let inbox = client.new_inbox();
    let mut arriving = client.subscribe(format!("{inbox}.*")).await.unwrap();
    for nth in 0..ROUNDS {
        let body = json!({
            "scope": "organization", "organization_id": nth.to_string(), "actor": "a",
            "reason": "r",
        });
        let (reply, body) = (format!("{inbox}.{nth}"), body.to_string());
        client.publish_with_reply("wakegate.control.pause", reply, body.into()).await.unwrap();
    }
    let mut answered = BTreeSet::new();
    for _ in 0..ROUNDS {
        let message = tokio::time::timeout(PATIENCE, arriving.next()).await.unwrap().unwrap();
        assert_eq!(answer(&message).unwrap()["created"], true);
        assert!(answered.insert(message.subject.to_string()), "answered twice");
    }
    assert_eq!(stage.outside.number("SELECT count(*) FROM pauses").await, 20);

    // A worker that ends is one no more, and the other answers on.
    let gone = healths.iter().find(|h| h["worker"]["process"] == first.id()).unwrap();
    let gone = gone["worker"]["id"].as_str().unwrap().to_owned();
    first.signal("TERM");
    let nobody = async || {
        let asked = client.request(format!("wakegate.control.health.{gone}"), "".into()).await;
        asked.is_err_and(|e| e.kind() == async_nats::RequestErrorKind::NoResponders).then_some(())
    };
    until_some(nobody, || first.told("it is still there")).await;
    for _ in 0..ROUNDS {
        ask(&client, "pauses", json!({})).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_told_to_answers_no_operators() {
    let stage = Stage::set(Dialect::Sqlite).await;
    let mut command = stage.command(&["run"]);
    command.env("WAKEGATE_CONTROL_ENABLED", "off");
    let worker = crate::harness::worker::Worker::spawn(command).await;
    worker.ready().await;
    let client = stage.nats.client().await;
    for subject in ["wakegate.control.health", "wakegate.control.pause", "$SRV.PING.wakegate"] {
        let error = client.request(subject, "".into()).await.unwrap_err();
        assert_eq!(error.kind(), async_nats::RequestErrorKind::NoResponders, "{subject}");
    }
}

/// A worker that waits for its servers says so to operators too.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_streams_or_tables_answers_for_what_it_waits() {
    let nats = crate::harness::nats::Nats::start().await;
    let setting = crate::through_servers::stage::Setting::default();
    let mut stage = Stage::bare(Dialect::Postgres, setting, nats).await;
    stage.apply_streams();
    stage.database_url = "postgres://nobody@127.0.0.1:1/none".to_owned();
    let mut command = stage.command(&["run"]);
    command.env("WAKEGATE_CONTROL_DEADLINE_MS", "500");
    let _worker = crate::harness::worker::Worker::spawn(command).await;
    let client = stage.nats.client().await;
    until_answering(&client).await;
    let waits = async || {
        let health = ask(&client, "health", json!({})).await.unwrap();
        (health["components"]["database"]["state"] == "waiting"
            && health["components"]["streams"]["state"] == "ok")
            .then_some(health)
    };
    let health = until_some(waits, || "it never waited for its database".to_owned()).await;
    assert_eq!(health["ready"], false);
    let platform = json!({ "scope": "platform", "actor": "a", "reason": "r" });
    let refused = ask(&client, "pause", platform).await.unwrap_err();
    assert_eq!((refused.code(), refused.number.as_str()), ("unavailable", "503"));
    let counts = ask(&client, "counts", json!({})).await.unwrap();
    assert_eq!(counts["unanswered"].as_array().unwrap().len(), 4, "{counts}");
}
