//! `wakegate publish`, and what the logs tell.

use serde_json::Value;

use super::stage::{Dialect, Setting, Stage};
use crate::harness::command::{Ended, fed};
use crate::harness::nats::{JetStream, Nats};

const EVENT: &str = r#"{"type":"task.mutated.v1","organization_id":"acme","task_id":"t1","new_assignee_agent_profile_id":"a1","assignment_generation":1}"#;

/// `wakegate publish` with this on its standard input.
fn publish(stage: &Stage, arguments: &[&str], input: &str) -> Ended {
    fed(&mut stage.command(&[&["publish"], arguments].concat()), input)
}

#[tokio::test]
async fn publish_prints_each_sequence_and_a_broken_line_costs_only_itself() {
    let stage = Stage::set(Dialect::Sqlite).await;
    let one = publish(&stage, &[], EVENT);
    assert_eq!((one.code, one.stdout.as_str(), one.stderr.as_str()), (Some(0), "1\n", ""));

    let input = format!("{EVENT}\n{{\"type\":\n{EVENT}\n");
    let three = publish(&stage, &["--producer", "onboarding"], &input);
    assert_eq!((three.code, three.stdout.as_str()), (Some(1), "2\n3\n"), "{}", three.stderr);
    assert!(three.stderr.contains("line 2: is not JSON"), "{}", three.stderr);
    let mut stream = stage.context.get_stream("WAKES").await.unwrap();
    assert_eq!(stream.info().await.unwrap().state.messages, 3);
    let stored = stream.get_raw_message(3).await.unwrap();
    assert_eq!(stored.subject.as_str(), "wakes.0.onboarding.acme.t1");
    assert_eq!(stored.payload, EVENT.as_bytes(), "byte for byte");
}

#[tokio::test]
async fn publish_waits_for_the_outcome_and_prints_it() {
    let stage = Stage::set(Dialect::Sqlite).await;
    let _worker = stage.worker().await;
    let told = publish(&stage, &["--outcome"], &format!("{EVENT}\n{EVENT}\n"));
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    let records: Vec<Value> =
        told.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let outcomes: Vec<&str> =
        records.iter().map(|record| record["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["queued", "deduplicated"]);
    assert_eq!(records[0]["run_id"], records[1]["run_id"]);
}

#[tokio::test]
async fn publish_says_when_nobody_decides_and_when_there_is_no_stream() {
    let nats = Nats::start().await;
    let stage = Stage::bare(Dialect::Sqlite, Setting::default(), nats).await;
    let nowhere = publish(&stage, &[], EVENT);
    assert_eq!((nowhere.code, nowhere.stdout.as_str()), (Some(1), ""));
    assert!(nowhere.stderr.contains("run `wakegate streams apply`"), "{}", nowhere.stderr);

    stage.apply_streams();
    let waits = publish(&stage, &["--outcome", "--outcome-seconds-max", "1"], EVENT);
    assert_eq!((waits.code, waits.stdout.as_str()), (Some(1), ""));
    assert!(waits.stderr.contains("stored as sequence 1, and no outcome within 1 s"));
    assert!(waits.stderr.contains("is a worker running?"), "{}", waits.stderr);
}

#[tokio::test]
async fn logs_are_json_where_nobody_watches_and_secrets_are_never_in_them() {
    let users = "authorization { user: \"worker\", password: \"s3cr3t-nats\" }";
    let nats = Nats::start_with(JetStream::On, users).await;
    let port = nats.url().rsplit(':').next().unwrap().to_owned();
    let directory = tempfile::tempdir().unwrap();
    let command = |arguments: &[&str], nats_password: &str| {
        let mut command = crate::harness::command::wakegate(directory.path(), arguments);
        command
            .env("WAKEGATE_NATS_URL", format!("nats://worker:{nats_password}@127.0.0.1:{port}"))
            .env("WAKEGATE_DATABASE_URL", "postgres://worker:s3cr3t-pg@127.0.0.1:1/none")
            .env("WAKEGATE_LOG_LEVEL", "trace");
        command
    };
    let applied =
        crate::harness::command::ended(&mut command(&["streams", "apply"], "s3cr3t-nats"));
    assert_eq!(applied.code, Some(0), "{}", applied.stderr);
    for (password, waits_for) in [("s3cr3t-nats", "database"), ("s3cr3t-wrong", "nats")] {
        let worker = crate::harness::worker::Worker::spawn(command(&["run"], password)).await;
        let is_told = |answer: &crate::harness::http::Answer| {
            let reason = answer.json()["components"][waits_for]["reason"].clone();
            reason.as_str().is_some_and(|reason| reason != "not reached yet")
        };
        let readyz = worker.until_readyz("it says nothing", is_told).await;
        worker.until_logged("waiting for the database").await;
        let log = worker.log();
        for line in log.lines() {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            assert!(line["level"].is_string() && line["timestamp"].is_string(), "{line}");
        }
        for said in [log, readyz.to_string()] {
            assert!(!said.contains("s3cr3t"), "{said}");
        }
    }
    for arguments in [&["migrate"][..], &["streams", "check"], &["publish", "-"]] {
        let failed = crate::harness::command::ended(&mut command(arguments, "s3cr3t-wrong"));
        assert_eq!(failed.code, Some(1), "{arguments:?}: {}", failed.stderr);
        assert!(!failed.stderr.contains("s3cr3t"), "{}", failed.stderr);
        assert!(!failed.stdout.contains("s3cr3t"), "{}", failed.stdout);
    }
}
