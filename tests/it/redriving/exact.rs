//! A wake is published again once, wherever a process ends and whoever else is at it.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use async_nats::HeaderMap;
use serde_json::Value;
use uuid::Uuid;
use wakegate::clock::Clock;
use wakegate::redrive::{Begun, Candidate, Choice, Original, Post, Posted, StoredMessage, choose};
use wakegate::store::StoreOptions;
use wakegate::store::control::{Change, Operator, Why};
use wakegate::store::history::HistoryStore;
use wakegate::store::postgres::PostgresStore;
use wakegate::store::redrive::RedriveStore;
use wakegate::store::sqlite::SqliteStore;

use super::{EXECUTE, lines, published_again, redrive, refused, states};
use crate::harness::until_some;
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Stage};
use crate::through_servers::story::assignment;

on_both_databases!(
    a_process_that_is_killed_leaves_nothing_that_is_published_twice,
    two_operators_at_once_publish_each_wake_once,
    what_was_begun_is_finished_whatever_was_done_of_it,
);

async fn refusals(stage: &Stage, count: usize) -> Vec<Value> {
    let worker = stage.worker().await;
    let events: Vec<_> = (0..count).map(|n| assignment(&format!("t{n}"), "a1", 1)).collect();
    let records = refused(stage, &events).await;
    stage.settled().await;
    drop(worker);
    forget_message_ids(stage).await;
    records
}

/// How many times each wake is on the stream again.
async fn times(stage: &Stage) -> HashMap<String, usize> {
    let mut times = HashMap::new();
    for (of, _) in published_again(stage).await {
        *times.entry(of).or_default() += 1;
    }
    times
}

/// JetStream forgets message ids at once: what stays exact then does not rest on its window.
async fn forget_message_ids(stage: &Stage) {
    let mut stream = stage.context.get_stream("WAKES").await.unwrap();
    let mut config = stream.info().await.unwrap().config.clone();
    config.duplicate_window = Duration::from_millis(100);
    stage.context.update_stream(config).await.unwrap();
}

/// Waits until an id that was used before now is used no longer.
async fn message_ids_are_forgotten(stage: &Stage) {
    let probe = format!("probe.{}", Uuid::from_u128(1));
    let publish = async || {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", probe.as_str());
        let sent =
            stage.context.publish_with_headers("wakes.cli.probe.t", headers, "{}".into()).await;
        sent.unwrap().await.unwrap().duplicate
    };
    publish().await;
    until_some(async || (!publish().await).then_some(()), || "it never forgets".to_owned()).await;
}

async fn a_process_that_is_killed_leaves_nothing_that_is_published_twice(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let records = refusals(&stage, 12).await;
    let arguments = [&["redrive", "--since", "1h"], &EXECUTE[..5], &["--rate=200"]].concat();
    for lines_read in [0, 1, 2, 3] {
        let mut command = stage.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        assert_eq!(stdout.lines().take(lines_read).count(), lines_read);
        child.kill().unwrap();
        child.wait().unwrap();
        message_ids_are_forgotten(&stage).await;
    }
    let done = stage.run(&arguments);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let times = times(&stage).await;
    for record in &records {
        assert_eq!(times.get(record["wake_id"].as_str().unwrap()), Some(&1), "{times:?}");
    }
    let open = "SELECT count(*) FROM redrives WHERE published_at IS NULL";
    assert_eq!(stage.outside.number(open).await, 0);
}

async fn two_operators_at_once_publish_each_wake_once(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let records = refusals(&stage, 25).await;
    let arguments = [&["redrive", "--since", "1h"], &EXECUTE[..]].concat();
    let spawn = || {
        let mut command = stage.command(&arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    for operator in [spawn(), spawn(), spawn()] {
        let ended = operator.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    let times = times(&stage).await;
    assert_eq!(times.len(), records.len());
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    assert_eq!(stage.outside.number("SELECT count(*) FROM redrives").await, 25);
}

async fn what_was_begun_is_finished_whatever_was_done_of_it(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let records = refusals(&stage, 4).await;
    let options = StoreOptions::default();
    match dialect {
        Dialect::Sqlite => {
            let store = SqliteStore::connect(&stage.database_url, &options).unwrap();
            Box::pin(on(&stage, &store, &records)).await;
        }
        Dialect::Postgres => {
            let store = PostgresStore::connect(&stage.database_url, &options).unwrap();
            Box::pin(on(&stage, &store, &records)).await;
        }
    }
}

/// A redrive that came as far as its record.
struct Cut {
    post: Post,
    candidate: Candidate,
    original: StoredMessage,
    begun: Begun,
}

async fn cut<S: HistoryStore + RedriveStore>(stage: &Stage, store: &S, record: &Value) -> Cut {
    let wake = record["wake_id"].as_str().unwrap().parse::<Uuid>().unwrap().into();
    let choice = Choice { wakes: vec![wake], wakes_max: 10, ..Choice::default() };
    let found = Box::pin(choose(store, &stage.context, &choice)).await.unwrap();
    let [candidate] = <[Candidate; 1]>::try_from(found.candidates).unwrap();
    let post = Post::new(stage.context.clone(), Clock::system());
    let Original::There(original) = post.original(&candidate.chosen).await.unwrap() else {
        panic!("the stream has it")
    };
    let by = Change {
        actor: Operator::parse("bob").unwrap(),
        reason: Why::parse("cut short").unwrap(),
        at: Clock::system().now(),
    };
    // No other wake's, or the server would drop one of them.
    let id = Uuid::from_u128(candidate.chosen.sequence.into());
    let begun = post.begin(store, &candidate, &original, &by, id).await;
    Cut { post, begun: begun.unwrap().unwrap(), candidate, original }
}

impl Cut {
    fn id(&self) -> String {
        self.candidate.chosen.wake_id.to_string()
    }
}

async fn on<S: HistoryStore + RedriveStore>(stage: &Stage, store: &S, records: &[Value]) {
    // Ended between the record and the publish.
    let unpublished = cut(stage, store, &records[0]).await;
    let told = lines(&redrive(stage, &["--wake", &unpublished.id()]));
    assert_eq!(states(&told), ["would_finish"]);
    assert_eq!(told[0]["redrive"]["actor"], "bob", "whose it is stays");
    let done = redrive(stage, &[&["--wake", &unpublished.id()], &EXECUTE[..]].concat());
    assert_eq!(states(&lines(&done)), ["published"], "{}", done.stderr);
    assert_eq!(lines(&done)[0]["redrive"]["actor"], "bob");

    // Ended between the publish and its record, long ago.
    let unfinished = cut(stage, store, &records[1]).await;
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Msg-Id", unfinished.begun.redrive.message_id.as_str());
    headers.insert("Wakegate-Redrive-Of", unfinished.id().as_str());
    let subject = unfinished.original.published_on().unwrap();
    let body = unfinished.original.body.clone();
    stage.context.publish_with_headers(subject, headers, body).await.unwrap().await.unwrap();
    message_ids_are_forgotten(stage).await;
    let done = redrive(stage, &[&["--wake", &unfinished.id()], &EXECUTE[..]].concat());
    assert_eq!(states(&lines(&done)), ["finished"], "{}", done.stderr);

    // Not ended, but held up for so long that somebody else finished it.
    let late = cut(stage, store, &records[2]).await;
    let done = redrive(stage, &[&["--wake", &late.id()], &EXECUTE[..]].concat());
    assert_eq!(states(&lines(&done)), ["published"], "{}", done.stderr);
    message_ids_are_forgotten(stage).await;
    let posted = late.post.finish(store, &late.begun, &late.original).await.unwrap();
    assert!(matches!(posted, Posted::Published { before: true, .. }), "{posted:?}");

    // And while others publish for the same task.
    let busy = cut(stage, store, &records[3]).await;
    stage.publish(&assignment("t3", "a2", 9)).await;
    let posted = busy.post.finish(store, &busy.begun, &busy.original).await.unwrap();
    assert!(matches!(posted, Posted::Published { before: false, .. }), "{posted:?}");

    let times = times(stage).await;
    assert_eq!(times.len(), 4);
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    assert_eq!(stage.outside.number("SELECT count(*) FROM redrives").await, 4);
}
