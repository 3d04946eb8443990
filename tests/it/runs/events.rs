//! What becomes of runs is published, each event at least once and in order, whatever is away.

use serde_json::{Value, json};

use super::asking::{ask, claim_one, held, queue, until_status, with, worker};
use crate::harness::schema::hold;
use crate::harness::until_some;
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Stage};
use crate::through_servers::story::assignment;

on_both_databases!(
    each_transition_of_a_run_is_published_with_what_it_was,
    events_wait_for_the_stream_and_nothing_else_does,
);

/// An event as the stream has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    pub subject: String,
    pub message_id: String,
    pub traceparent: Option<String>,
    pub event: Value,
}

/// Everything that the stream has, in its order.
pub async fn told(stage: &Stage) -> Vec<Told> {
    let mut stream = stage.context.get_stream("RUN_EVENTS").await.unwrap();
    let last = stream.info().await.unwrap().state.last_sequence;
    let mut all = Vec::new();
    for sequence in 1..=last {
        let message = stream.get_raw_message(sequence).await.unwrap();
        let header = |name: &str| message.headers.get(name).map(|value| value.as_str().to_owned());
        let event: Value = serde_json::from_slice(&message.payload).unwrap();
        hold("runs-event", &event);
        all.push(Told {
            subject: message.subject.to_string(),
            message_id: header("Nats-Msg-Id").expect("repeats are known by it"),
            traceparent: header("traceparent"),
            event,
        });
    }
    all
}

/// Waits until everything is published.
pub async fn until_told(stage: &Stage) {
    let none = "SELECT count(*) FROM run_events";
    let look = async || (stage.outside.number(none).await == 0).then_some(());
    until_some(look, || "events are never published".to_owned()).await;
}

fn names(told: &[Told]) -> Vec<&str> {
    told.iter().map(|told| told.event["event"].as_str().unwrap()).collect()
}

async fn each_transition_of_a_run_is_published_with_what_it_was(dialect: Dialect) {
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let stage = Stage::set(dialect).await;
    let (worker, client) = worker(&stage, &[]).await;
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("traceparent", TRACE);
    stage.send(&assignment("t1", "a1", 1), headers).await;
    stage.settled().await;

    let body = json!({ "runner_id": "slow", "lease_seconds": 1 });
    let lapsed = ask(&client, "claim", body).await.unwrap()["runs"][0].clone();
    assert_eq!(lapsed["traceparent"], TRACE, "the trace travels to the runner");
    until_status(&stage.outside, lapsed["run_id"].as_str().unwrap(), "queued").await;
    let run = claim_one(&client).await;
    ask(&client, "start", held(&run)).await.unwrap();
    let cancel = json!({
        "run_id": run["run_id"], "scope": "platform", "actor": "ann", "reason": "enough",
    });
    ask(&client, "cancel", cancel).await.unwrap();
    let end = with(held(&run), json!({ "status": "cancelled", "reason": "stopped" }));
    ask(&client, "finish", end).await.unwrap();
    until_told(&stage).await;

    let told = told(&stage).await;
    let expected = ["claimed", "returned", "claimed", "started", "cancel_requested", "cancelled"];
    assert_eq!(names(&told), expected);
    for (told, event) in told.iter().zip(expected) {
        assert_eq!(told.subject, format!("run-events.acme.{event}"));
        assert_eq!(told.event["run_id"], run["run_id"]);
        assert_eq!(told.event["task_id"], "t1");
        assert_eq!(told.traceparent.as_deref(), Some(TRACE));
        let id = format!("{}.{event}.", run["run_id"].as_str().unwrap());
        assert!(told.message_id.starts_with(&id), "{}", told.message_id);
    }
    let field = |name: &str| -> Vec<&Value> { told.iter().map(|told| &told.event[name]).collect() };
    assert_eq!(field("fencing_token"), [1, 1, 2, 2, 2, 2]);
    assert_eq!(field("runner_id"), ["slow", "slow", "r1", "r1", "r1", "r1"]);
    assert_eq!(
        (&told[4].event["actor"], &told[4].event["reason"]),
        (&json!("ann"), &json!("enough"))
    );
    assert_eq!(told[5].event["reason"], "stopped");
    let series = worker.scrape().await;
    for (event, count) in [("claimed", "2"), ("returned", "1"), ("cancelled", "1"), ("other", "0")]
    {
        let name = format!("wakegate_run_events_total{{event=\"{event}\"}}");
        assert_eq!(series[&name].to_string(), count, "{name}");
    }
}

async fn events_wait_for_the_stream_and_nothing_else_does(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let (worker, client) = worker(&stage, &[("WAKEGATE_NATS_REQUEST_TIMEOUT_MS", "500")]).await;
    stage.context.delete_stream("RUN_EVENTS").await.unwrap();
    let organizations = ["acme", "", "-", "a.b*>", "é"];
    for (id, organization) in (1..).zip(organizations) {
        queue(&stage.outside, id, organization).await;
        let run = claim_one(&client).await;
        ask(&client, "start", held(&run)).await.unwrap();
        let end = with(held(&run), json!({ "status": "succeeded" }));
        ask(&client, "finish", end).await.unwrap();
    }
    let failures = "wakegate_run_event_publish_failures_total";
    let failed = async || (worker.scrape().await[failures] > 0.0).then_some(());
    until_some(failed, || worker.told("nothing failed")).await;
    assert_eq!(stage.outside.number("SELECT count(*) FROM run_events").await, 15);
    assert!(worker.scrape().await["wakegate_run_events_unpublished_seconds"] > 0.0);

    stage.apply_streams();
    until_told(&stage).await;
    let told = told(&stage).await;
    let subjects: Vec<&str> = told.iter().map(|told| told.subject.as_str()).collect();
    let tokens = ["acme", "-", "=2D", "a=2Eb=2A=3E", "=C3=A9"];
    let expected: Vec<String> = tokens
        .iter()
        .flat_map(|token| {
            ["claimed", "started", "succeeded"].map(|e| format!("run-events.{token}.{e}"))
        })
        .collect();
    assert_eq!(subjects, expected, "in order, and no organization in another's subject");
    let age = "wakegate_run_events_unpublished_seconds";
    let none = async || (worker.scrape().await[age] <= 0.0).then_some(());
    until_some(none, || worker.told("the gauge stays")).await;
}
