//! `wakegate redrive`: which wakes it publishes again, as what, and that each is once.

mod exact;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::command::Ended;
use crate::harness::world::Published;
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Stage};
use crate::through_servers::story::assignment;

on_both_databases!(
    refused_wakes_are_published_again_once_and_it_is_told_by_whom,
    a_rejected_event_is_published_again_as_it_was,
    what_the_stream_has_no_longer_is_named,
);

/// Lines of a pipe, whatever the exit code.
fn lines(ended: &Ended) -> Vec<Value> {
    ended.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON in a pipe")).collect()
}

fn states(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["state"].as_str().unwrap()).collect()
}

const EXECUTE: [&str; 6] = ["--execute", "--reason", "mended", "--actor", "ann", "--rate=1000"];

fn redrive(stage: &Stage, arguments: &[&str]) -> Ended {
    stage.run(&[&["redrive"], arguments].concat())
}

/// Messages of `WAKES` as which these wakes were published again, by the header that says so.
async fn published_again(stage: &Stage) -> Vec<(String, u64)> {
    let mut stream = stage.context.get_stream("WAKES").await.unwrap();
    let holds = stream.info().await.unwrap().state.clone();
    let mut found = Vec::new();
    for sequence in holds.first_sequence..=holds.last_sequence {
        let Ok(message) = stream.get_raw_message(sequence).await else { continue };
        if let Some(of) = message.headers.get("Wakegate-Redrive-Of") {
            found.push((of.as_str().to_owned(), sequence));
        }
    }
    found
}

/// Publishes these while their organization is paused, and returns their records.
async fn refused(stage: &Stage, events: &[Published]) -> Vec<Value> {
    let organization = &events[0].organization;
    stage.outside.pause(&format!("pause-{organization}"), Some(organization)).await;
    let mut records = Vec::new();
    for event in events {
        let record = stage.publish_for_outcome(event).await;
        assert_eq!(record["reason"], "organization_paused", "{record}");
        records.push(record);
    }
    stage.outside.resume_all().await;
    records
}

async fn refused_wakes_are_published_again_once_and_it_is_told_by_whom(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let worker = stage.worker().await;
    let events = [1, 2, 3].map(|task| assignment(&format!("t{task}"), "a1", 1));
    let records = refused(&stage, &events).await;
    let other = json!({ "organization_id": "other" });
    refused(&stage, &[assignment("t1", "a1", 1).with(other)]).await;
    stage.settled().await;
    let wakes: Vec<&str> =
        records.iter().map(|record| record["wake_id"].as_str().unwrap()).collect();
    let which = ["--outcome-reason", "organization_paused", "--organization", "acme"];

    let preview = redrive(&stage, &which);
    assert_eq!(preview.code, Some(0), "{}", preview.stderr);
    let told = lines(&preview);
    assert_eq!(states(&told), ["would_publish"; 3]);
    let ids: Vec<_> = told.iter().map(|line| line["wake_id"].as_str().unwrap()).collect();
    assert_eq!(ids, wakes, "in the order of the stream");
    assert!(preview.stderr.contains("nothing was published"), "{}", preview.stderr);
    assert!(preview.stderr.contains("publishes 3"), "{}", preview.stderr);
    assert_eq!(stage.outside.number("SELECT count(*) FROM redrives").await, 0);
    assert_eq!(published_again(&stage).await, []);

    let done = redrive(&stage, &[&which[..], &EXECUTE].concat());
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{}", done.stdout);
    let told = lines(&done);
    assert_eq!(states(&told), ["published"; 3]);
    let new: Vec<String> = told
        .iter()
        .map(|line| line["redrive"]["published_wake_id"].as_str().unwrap().to_owned())
        .collect();
    stage.until_number("SELECT count(*) FROM runs", 3).await;
    stage.settled().await;
    let mut runs: Vec<String> = stage.outside.runs().await.into_iter().map(|run| run.id).collect();
    runs.sort();
    let mut expected = new.clone();
    expected.sort();
    assert_eq!(runs, expected, "a run has the id of the wake that it is told to be");

    // The same again changes nothing, and names who did it where it is asked for by id.
    let again = redrive(&stage, &[&which[..], &EXECUTE].concat());
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), ""), "{}", again.stderr);
    assert!(again.stderr.contains("3 were published again before"), "{}", again.stderr);
    let by_id = redrive(&stage, &[&["--wake", wakes[0]], &EXECUTE[..]].concat());
    let told = lines(&by_id);
    assert_eq!((by_id.code, states(&told)), (Some(0), vec!["already"]));
    assert_eq!(told[0]["redrive"]["actor"], "ann");
    assert_eq!(told[0]["redrive"]["reason"], "mended");
    assert_eq!(published_again(&stage).await.len(), 3);

    // Told to, it does: and the key, which is taken by now, makes it a duplicate.
    let again = redrive(&stage, &[&["--wake", wakes[0], "--again"], &EXECUTE[..]].concat());
    assert_eq!(states(&lines(&again)), ["published"], "{}", again.stderr);
    assert_eq!(lines(&again)[0]["redrive"]["ordinal"], 2);
    stage.settled().await;
    assert_eq!(stage.outside.run_count().await, 3);

    drop(worker);
    for (id, what) in [(wakes[1], ["refused", "redriven"]), (&new[1], ["redriven", "admitted"])] {
        let told = stage.run(&["why", id]);
        assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""));
        let told = lines(&told);
        let found: Vec<_> = told.iter().map(|line| line["what"].as_str().unwrap()).collect();
        assert_eq!(found, what, "{told:#?}");
        let redriven = told.iter().find(|line| line["what"] == "redriven").unwrap();
        assert_eq!(redriven["wake_id"], wakes[1]);
        assert_eq!(redriven["detail"], format!("as wake {}, by \"ann\": mended", new[1]));
    }
    let of_task = lines(&stage.run(&["why", "t1", "--organization", "acme"]));
    let redriven = of_task.iter().filter(|line| line["what"] == "redriven").count();
    assert_eq!(redriven, 2, "each time: {of_task:#?}");
}

async fn a_rejected_event_is_published_again_as_it_was(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let worker = stage.worker().await;
    let wrong = assignment("t1", "a1", 1).with(json!({ "assignment_generation": -1 }));
    let asked = stage.ask(&wrong).await;
    let record = stage.outcome(&asked).await;
    assert_eq!(record["reason"], "invalid_field", "{record}");
    let nonsense = stage.ask_at("wakes.cli.acme.t2", "nonsense".into()).await;
    assert_eq!(stage.outcome(&nonsense).await["reason"], "not_json");
    stage.settled().await;

    let told = lines(&redrive(&stage, &["--outcome", "rejected", "--organization", "acme"]));
    assert_eq!(states(&told), ["would_publish"; 2], "one of them is told by its subject: {told:?}");
    let done = redrive(&stage, &[&["--outcome-reason", "invalid_field"], &EXECUTE[..]].concat());
    assert_eq!(states(&lines(&done)), ["published"], "{}", done.stderr);
    // It is judged anew, and whoever asked for the outcome is told of it too.
    let again = stage.outcome(&asked).await;
    assert_eq!(again["reason"], "invalid_field");
    assert_ne!(again["wake_id"], record["wake_id"]);
    let stream = stage.context.get_stream("WAKES").await.unwrap();
    let sequence = again["stream_sequence"].as_u64().unwrap();
    let message = stream.get_raw_message(sequence).await.unwrap();
    assert_eq!(message.payload, wrong.body);
    let id = message.headers.get("Nats-Msg-Id").unwrap().as_str();
    assert!(id.starts_with("acme."), "{id}");
    let moved = worker.moved(&["wakegate_contract_violations_total"]).await;
    assert!(moved.is_empty(), "{moved:?}");
}

async fn what_the_stream_has_no_longer_is_named(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let worker = stage.worker().await;
    let records = refused(&stage, &[1, 2].map(|n| assignment(&format!("t{n}"), "a1", 1))).await;
    stage.settled().await;
    drop(worker);
    let stream = stage.context.get_stream("WAKES").await.unwrap();
    let sequence = records[0]["stream_sequence"].as_u64().unwrap();
    stream.delete_message(sequence).await.unwrap();
    let nobody = uuid::Uuid::from_u128(7).to_string();

    let all = ["--outcome-reason", "organization_paused"];
    let preview = redrive(&stage, &all);
    assert_eq!(states(&lines(&preview)), ["gone", "would_publish"]);
    assert_eq!(preview.code, Some(1));
    let done = redrive(&stage, &[&all[..], &EXECUTE].concat());
    assert_eq!(states(&lines(&done)), ["gone", "published"]);
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert_eq!(lines(&done)[0]["wake_id"], records[0]["wake_id"], "it is named");

    let unknown = redrive(&stage, &["--wake", &nobody]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(1), ""));
    assert!(unknown.stderr.contains(&nobody), "{}", unknown.stderr);
    let at = records[1]["requested_at"].as_str().unwrap();
    let none = redrive(&stage, &["--until", at, "--outcome", "refused"]);
    assert_eq!(states(&lines(&none)), ["gone"], "the second was requested at that instant");
    let none = redrive(&stage, &["--since", at, "--outcome", "refused"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""), "it is done already");
}

#[tokio::test]
async fn a_wrong_usage_publishes_nothing() {
    let stage = Stage::set(Dialect::Sqlite).await;
    for (arguments, says) in [
        (&[][..], "required arguments were not provided"),
        (&["--outcome", "refused", "--execute", "--actor", "ann"], "--reason"),
        (&["--since", "soon"], "how long ago"),
        (&["--outcome", "queued"], "possible values: refused, rejected"),
        (&["--since", "1h", "--rate", "0"], "0 is not in 1..=1000"),
    ] {
        let mut command = stage.command(&[&["redrive"], arguments].concat());
        let ended = crate::harness::command::ended(command.env_remove("USER"));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ended.stderr.contains(says), "{arguments:?}: {}", ended.stderr);
    }
    let mut nobody = stage.command(&["redrive", "--since", "1h", "--execute", "--reason", "r"]);
    let ended = crate::harness::command::ended(nobody.env_remove("USER"));
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("--actor"), "{}", ended.stderr);
}

#[tokio::test]
async fn no_more_are_published_in_a_second_than_told() {
    let stage = Stage::set(Dialect::Sqlite).await;
    let worker = stage.worker().await;
    let events: Vec<_> = (0..6).map(|n| assignment(&format!("t{n}"), "a1", 1)).collect();
    refused(&stage, &events).await;
    stage.settled().await;
    drop(worker);
    let begun = Instant::now();
    let arguments = ["--since", "1h", "--execute", "--reason", "r", "--actor", "ann", "--rate=5"];
    let done = redrive(&stage, &[&arguments[..], &["--limit", "5"]].concat());
    assert_eq!(states(&lines(&done)), ["published"; 5], "{}", done.stderr);
    assert!(begun.elapsed() >= Duration::from_millis(800), "{:?}", begun.elapsed());
    assert!(done.stderr.contains("there are more than 5"), "{}", done.stderr);
    // What was published is no part of the limit.
    let rest = redrive(&stage, &[&arguments[..], &["--limit", "5"]].concat());
    assert_eq!(states(&lines(&rest)), ["published"]);
}
