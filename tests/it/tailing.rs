//! `wakegate tail`: what it shows, that it shows each event once, and how it ends.

use std::io::{BufRead as _, BufReader};
use std::ops::ControlFlow;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};

use serde_json::{Value, json};
use wakegate::audit::live::{Begin, Heard, Reader, Wanted};
use wakegate::wake::UtcMicros;

use crate::harness::{PATIENCE, until_some};
use crate::through_servers::stage::{Dialect, Stage};
use crate::through_servers::story::assignment;

/// A `wakegate tail` that runs, its lines as they come.
struct Tail {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

fn lines_of(pipe: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

impl Tail {
    fn start(stage: &Stage, arguments: &[&str]) -> Self {
        let mut command = stage.command(&[&["tail"], arguments].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = lines_of(child.stdout.take().unwrap());
        let stderr = lines_of(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    fn next(&self) -> Value {
        let line = self.stdout.recv_timeout(PATIENCE).expect("an event is shown");
        serde_json::from_str(&line).expect("JSON in a pipe")
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args(["-s", name, &id]).status().unwrap();
        assert!(sent.success());
    }

    /// Its exit code, and what it said of itself.
    fn ended(mut self) -> (Option<i32>, Vec<String>) {
        let status = self.child.wait().unwrap();
        (status.code(), self.stderr.iter().collect())
    }
}

/// An event as a worker would put it there.
async fn audit(stage: &Stage, subject: &str, record: Value) -> u64 {
    let sent = stage.context.publish(subject.to_owned(), record.to_string().into()).await;
    sent.unwrap().await.unwrap().sequence
}

async fn refusal(stage: &Stage, organization: &str, task: &str) -> u64 {
    let record = json!({
        "outcome": "refused", "reason": "agent_stopped", "organization_id": organization,
        "task_id": task, "wake_id": uuid::Uuid::nil(),
    });
    audit(stage, &format!("wake-audit.refused.agent_stopped.{organization}"), record).await
}

async fn readers(stage: &Stage) -> usize {
    let mut stream = stage.context.get_stream("WAKE_AUDIT").await.unwrap();
    stream.info().await.unwrap().state.consumer_count
}

async fn until_readers(stage: &Stage, count: usize) {
    let ask = async || (readers(stage).await == count).then_some(());
    until_some(ask, || format!("never {count} readers")).await;
}

#[tokio::test]
async fn events_are_shown_as_they_come_and_as_they_are_asked_for() {
    let stage = Stage::set(Dialect::Sqlite).await;
    let worker = stage.worker().await;
    stage.outside.set_agent("acme", "stopped", "stopped").await;
    let before = stage.publish_for_outcome(&assignment("t0", "stopped", 1)).await;
    let tail = Tail::start(&stage, &[]);
    until_readers(&stage, 1).await;
    let refused = stage.publish_for_outcome(&assignment("t1", "stopped", 1)).await;
    let wrong = assignment("t2", "a1", 1).with(json!({ "assignment_generation": -1 }));
    let rejected = stage.publish_for_outcome(&wrong).await;
    for (record, class) in [(&refused, "refused"), (&rejected, "rejected")] {
        let shown = tail.next();
        assert_eq!(shown["class"], class, "what was before is not shown: {shown}");
        assert_eq!(shown["reason"], record["reason"]);
        assert_eq!(shown["record"]["wake_id"], record["wake_id"]);
        let id = format!("{}.{class}.{}", record["wake_id"].as_str().unwrap(), record["reason"]);
        assert_eq!(shown["message_id"], id.replace('"', ""));
    }
    tail.signal("INT");
    assert_eq!(tail.ended(), (Some(0), vec![]));
    until_readers(&stage, 0).await;
    drop(worker);

    refusal(&stage, "other", "t1").await;
    audit(
        &stage,
        "wake-audit.degraded.task_unattributed.acme",
        json!({
            "outcome": "queued", "degraded_reason": "task_unattributed", "organization_id": "acme",
        }),
    )
    .await;
    audit(&stage, "wake-audit.lost.removed.-", json!({ "outcome": "lost", "wakes": 2 })).await;
    let shown = |arguments: &[&str]| -> Vec<Value> {
        let past = ["tail", "--since", "1h", "--until-caught-up"];
        let ended = stage.run(&[&past, arguments].concat());
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{arguments:?}");
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    assert_eq!(shown(&[])[0]["record"]["wake_id"], before["wake_id"]);
    for (arguments, sequences) in [
        (&[][..], &[1, 2, 3, 4, 5, 6][..]),
        (&["--outcome", "refused"], &[1, 2, 4]),
        (&["--outcome", "refused", "--outcome", "lost"], &[1, 2, 4, 6]),
        (&["--reason", "agent_stopped", "--organization", "acme"], &[1, 2]),
        (&["--reason", "task_unattributed", "--reason", "invalid_field"], &[3, 5]),
        (&["--organization", "acme"], &[1, 2, 3, 5]),
        (&["--organization", "umbra"], &[]),
        (&["--task", "t1"], &[2, 4]),
        (&["--task", "t1", "--organization", "other"], &[4]),
        (&["--limit", "2"], &[1, 2]),
    ] {
        let shown: Vec<u64> =
            shown(arguments).iter().map(|line| line["sequence"].as_u64().unwrap()).collect();
        assert_eq!(shown, sequences, "{arguments:?}");
    }
    let later = ["tail", "--until-caught-up", "--since", "2100-01-01T00:00:00Z"];
    assert_eq!(stage.run(&later).stdout, "");
    assert_eq!(stage.run(&["tail", "--reason", "a.b"]).code, Some(2));
}

#[tokio::test]
async fn a_server_that_goes_away_costs_no_event_and_repeats_none() {
    let mut stage = Stage::set(Dialect::Sqlite).await;
    let tail = Tail::start(&stage, &["--since", "1h", "--organization", "acme"]);
    let mut expected = Vec::new();
    for round in 0..3 {
        for task in 0..4 {
            expected.push(refusal(&stage, "acme", &format!("t{round}-{task}")).await);
            refusal(&stage, "other", "t").await;
        }
        assert_eq!(tail.next()["sequence"], expected[4 * round], "it is at it");
        // With what it may not have read, and perhaps in the midst of reading.
        stage.nats.kill();
        stage.nats.start_again().await;
        let client = stage.nats.client().await;
        stage.context = async_nats::jetstream::new(client);
        for sequence in &expected[4 * round + 1..] {
            assert_eq!(tail.next()["sequence"], *sequence);
        }
    }
    tail.signal("TERM");
    let (code, said) = tail.ended();
    assert_eq!(code, Some(0), "{said:?}");
    let is_known = |line: &String| {
        ["trying again", "reading goes on"].iter().any(|known| line.contains(known))
    };
    assert!(said.iter().all(is_known), "nothing was dropped: {said:?}");
}

#[tokio::test]
async fn a_reader_that_goes_away_is_no_failure() {
    let stage = Stage::set(Dialect::Sqlite).await;
    let mut command = stage.command(&["tail", "--since", "1h"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    refusal(&stage, "acme", "t1").await;
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(0), &b""[..]));
}

/// What is heard of one reading, until there are so many events.
async fn hear(reader: &mut Reader, events: usize) -> Vec<Heard> {
    let mut heard = Vec::new();
    let mut left = events;
    let mut hear = |one: Heard| {
        left -= usize::from(matches!(one, Heard::Event(_)));
        heard.push(one);
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let followed = tokio::time::timeout(PATIENCE, reader.follow(false, &mut hear)).await;
    followed.expect("it hears so many").unwrap();
    heard
}

/// Events by their sequences, and what was said beside them.
fn told(heard: &[Heard]) -> Vec<String> {
    heard
        .iter()
        .map(|one| match one {
            Heard::Event(event) => event.sequence.to_string(),
            other => format!("{other:?}"),
        })
        .collect()
}

#[tokio::test]
async fn what_the_stream_drops_unread_is_said() {
    let stage = Stage::set(Dialect::Sqlite).await;
    let since = Begin::Since(UtcMicros::default());
    let mut all = Reader::new(stage.context.clone(), Wanted::default(), since);
    let of_acme = Wanted { organization: Some("acme".to_owned()), ..Wanted::default() };
    let mut some = Reader::new(stage.context.clone(), of_acme, since);
    for _ in 0..6 {
        refusal(&stage, "acme", "t").await;
    }
    assert_eq!(told(&hear(&mut all, 1).await), ["1"]);
    assert_eq!(told(&hear(&mut some, 1).await), ["1"]);
    let stream = stage.context.get_stream("WAKE_AUDIT").await.unwrap();
    stream.purge().sequence(4).await.unwrap();
    stream.delete_message(5).await.unwrap();
    let dropped = "Dropped { from: 2, to: 3 }";
    assert_eq!(told(&hear(&mut all, 2).await), [dropped, "4", "Dropped { from: 5, to: 5 }", "6"]);
    // With a choice, sequences are missing anyway; what is gone at the front may have been chosen.
    assert_eq!(told(&hear(&mut some, 2).await), [dropped, "4", "6"]);

    // The stream keeps few of a subject, and more than that wait.
    let mut config = stream.cached_info().config.clone();
    config.max_messages_per_subject = 3;
    stage.context.update_stream(config.clone()).await.unwrap();
    for organization in ["acme", "acme", "other", "other", "acme"] {
        refusal(&stage, organization, "t").await;
    }
    audit(&stage, "wake-audit.refused.platform_paused.acme", json!({})).await;
    let heard = hear(&mut some, 4).await;
    assert_eq!(told(&heard), ["Behind { pending: 3, kept: 3 }", "7", "8", "11", "12"]);

    // Another stream of the same name.
    stage.context.delete_stream("WAKE_AUDIT").await.unwrap();
    stage.context.create_stream(config).await.unwrap();
    refusal(&stage, "acme", "t").await;
    assert_eq!(told(&hear(&mut some, 1).await), ["Anew { from: 1 }", "1"]);
    stage.context.publish("wake-audit.a.b.acme", "nonsense".into()).await.unwrap().await.unwrap();
    refusal(&stage, "acme", "t").await;
    assert_eq!(told(&hear(&mut some, 1).await), ["Stray { sequence: 2 }", "3"]);
    some.close().await;
    all.close().await;
    until_readers(&stage, 0).await;
}

#[tokio::test]
async fn a_backlog_is_shown_whole_and_in_order() {
    let stage = Stage::set(Dialect::Sqlite).await;
    for number in 0..600 {
        let subject = format!("wake-audit.refused.agent_stopped.o{}", number % 7);
        stage.context.publish(subject, "{}".into()).await.unwrap();
    }
    refusal(&stage, "acme", "t").await;
    let ended = stage.run(&["tail", "--since", "1h", "--until-caught-up"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let shown: Vec<u64> = ended
        .stdout
        .lines()
        .map(|line| line.parse::<Value>().unwrap()["sequence"].as_u64().unwrap())
        .collect();
    assert_eq!(shown, (1..=601).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_stream_that_is_not_there_is_a_failure_that_says_what_to_do() {
    let stage = Stage::set(Dialect::Sqlite).await;
    stage.context.delete_stream("WAKE_AUDIT").await.unwrap();
    let ended = stage.run(&["tail"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains("wakegate streams apply"), "{}", ended.stderr);
}
