//! A worker starts: it waits for a server that is away, and ends with what to run where waiting
//! would not help.

use serde_json::{Value, json};

use super::on_both_databases;
use super::stage::{Dialect, Setting, Stage};
use super::story::assignment;
use crate::harness::command::{ended, wakegate};
use crate::harness::nats::{JetStream, Nats};
use crate::harness::{postgres, sqlite};

on_both_databases!(a_worker_without_nats_says_so_and_starts_by_itself_once_it_is_there);

async fn a_worker_without_nats_says_so_and_starts_by_itself_once_it_is_there(dialect: Dialect) {
    let mut stage = Stage::set(dialect).await;
    stage.nats.stop();
    let worker = stage.worker_starting().await;
    let server = stage.nats.url().replace("nats://", "");
    let readyz = worker
        .until_readyz("it does not name the server", |answer| {
            let reason = answer.json()["components"]["nats"]["reason"].clone();
            reason.as_str().is_some_and(|reason| reason.contains(&server))
        })
        .await;
    assert_eq!(readyz["ready"], false);
    assert_eq!(readyz["components"]["nats"]["state"], "waiting");
    worker.until_logged("waiting for NATS").await;
    assert!(worker.log().contains(&server), "{}", worker.log());

    stage.nats.start_again().await;
    worker.ready().await;
    let record = stage.publish_for_outcome(&assignment("t1", "a1", 1)).await;
    assert_eq!(record["outcome"], "queued", "{}", worker.log());
}

#[tokio::test]
async fn a_worker_without_postgres_says_so_and_starts_by_itself_once_it_is_there() {
    let stage = Stage::set(Dialect::Postgres).await;
    stage.refuse_connections(true).await;
    let worker = stage.worker_starting().await;
    let readyz = worker
        .until_readyz("it does not say what it waits for", |answer| {
            let reason = answer.json()["components"]["database"]["reason"].clone();
            reason.as_str().is_some_and(|reason| reason.contains("not currently accepting"))
        })
        .await;
    assert_eq!(readyz["ready"], false);
    worker.until_logged("waiting for the database").await;
    stage.refuse_connections(false).await;
    worker.ready().await;
    let record = stage.publish_for_outcome(&assignment("t1", "a1", 1)).await;
    assert_eq!(record["outcome"], "queued", "{}", worker.log());
}

#[tokio::test]
async fn a_worker_whose_file_cannot_be_opened_says_so_and_starts_by_itself_once_it_can() {
    let mut stage = Stage::set(Dialect::Sqlite).await;
    let directory = stage.directory.path().join("mounted-later");
    stage.database_url = format!("sqlite://{}/wakegate.db", directory.display());
    let worker = stage.worker_starting().await;
    worker.until_logged("waiting for the database").await;
    let readyz = worker.until_readyz("it is ready", |answer| answer.status == 503).await;
    assert_eq!(readyz["components"]["database"]["state"], "waiting", "{readyz}");

    // Made beside and moved there, so that a worker never sees it half made.
    let made = stage.directory.path().join("made");
    std::fs::create_dir(&made).unwrap();
    let migrated = ended(
        stage
            .command(&["migrate"])
            .env("WAKEGATE_DATABASE_URL", format!("sqlite://{}/wakegate.db", made.display())),
    );
    assert_eq!(migrated.code, Some(0), "{}", migrated.stderr);
    std::fs::rename(&made, &directory).unwrap();
    worker.ready().await;
    let record = stage.publish_for_outcome(&assignment("t1", "a1", 1)).await;
    assert_eq!(record["outcome"], "queued", "{}", worker.log());
}

#[tokio::test]
async fn streams_that_are_missing_or_differ_end_the_worker_with_4_and_what_to_run() {
    let nats = Nats::start().await;
    let stage = Stage::bare(Dialect::Sqlite, Setting::default(), nats).await;
    let ends = |says: &str| {
        let ended = stage.run(&["run"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), ""), "{}", ended.stderr);
        for says in [says, "run: wakegate streams apply"] {
            assert!(ended.stderr.contains(says), "{says}: {}", ended.stderr);
        }
    };
    ends("stream WAKES");
    stage.apply_streams();
    stage.context.delete_stream("WAKE_AUDIT").await.unwrap();
    ends("stream WAKE_AUDIT");
    stage.apply_streams();
    stage.context.delete_consumer_from_stream("lane-0", "WAKES").await.unwrap();
    ends("consumer lane-0 of WAKES");
    stage.apply_streams();

    let request = json!({ "stream_name": "WAKES", "config": {
        "durable_name": "lane-0", "filter_subject": "wakes.0.>", "ack_policy": "explicit",
        "deliver_policy": "all", "ack_wait": 2_000_000_000_u64, "max_deliver": 5,
        "max_ack_pending": 1_000, "priority_groups": ["lane"],
        "priority_policy": "pinned_client", "priority_timeout": 2_000_000_000_u64 } });
    let changed: Value =
        stage.context.request("CONSUMER.DURABLE.CREATE.WAKES.lane-0", &request).await.unwrap();
    assert!(changed.get("error").is_none(), "{changed}");
    ends("max_deliver: wanted unlimited, found 5");
    stage.apply_streams();
    stage.catch_up();
}

#[tokio::test]
async fn a_missing_schema_ends_the_worker_with_what_to_run() {
    let mut stage = Stage::set(Dialect::Postgres).await;
    let (_directory, empty_file) = sqlite::empty_database();
    let empty = postgres::empty_database().await;
    for url in [empty.url(), empty_file] {
        stage.database_url = url;
        let ended = stage.run(&["run"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        assert!(ended.stderr.contains("run `wakegate migrate`"), "{}", ended.stderr);
        assert_eq!(stage.run(&["migrate"]).code, Some(0));
        stage.catch_up();
    }
}

#[tokio::test]
async fn what_no_waiting_mends_is_named_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let no_jetstream = Nats::start_with(JetStream::Off, "").await;
    let (_kept, file) = sqlite::database().await;
    let plain = no_jetstream.url();
    for (nats_url, code, says) in [
        ("http://127.0.0.1:4222", 2, "WAKEGATE_NATS_URL"),
        ("nats://", 2, "WAKEGATE_NATS_URL"),
        (plain.as_str(), 1, "has no JetStream"),
    ] {
        let ended = ended(
            wakegate(directory.path(), &["run"])
                .env("WAKEGATE_NATS_URL", nats_url)
                .env("WAKEGATE_DATABASE_URL", &file)
                .env("WAKEGATE_HTTP_ADDR", "127.0.0.1:0"),
        );
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{}", ended.stderr);
        assert!(ended.stderr.contains(says), "{nats_url}: {}", ended.stderr);
    }
}
