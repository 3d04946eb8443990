//! Asks as a runner would.

use std::time::Duration;

use async_nats::{Client, ConnectOptions, RequestErrorKind};
use serde_json::{Value, json};
use wakegate::queue::Verb;

use crate::control::asking::{Refused, answer};
use crate::harness::outside::{Outside, OutsideRun};
use crate::harness::schema::hold;
use crate::harness::worker::Worker;
use crate::harness::{PATIENCE, until_some};
use crate::through_servers::stage::Stage;

/// Asks with bytes. Whatever is answered is held against its schema.
pub async fn ask_bytes(client: &Client, verb: &str, body: Vec<u8>) -> Result<Value, Refused> {
    let subject = format!("wakegate.runs.{verb}");
    let message = client.request(subject.clone(), body.into()).await;
    let answered = answer(&message.unwrap_or_else(|error| panic!("{verb}: {error}")));
    let (name, said) = match (&answered, Verb::of_subject(&subject)) {
        (Ok(reply), Some((verb, _))) => (format!("runs-{}-reply", verb.as_str()), reply),
        (Ok(reply), None) => panic!("{verb} was answered: {reply}"),
        (Err(refused), _) => ("control-error".to_owned(), &refused.error),
    };
    hold(&name, said);
    answered
}

/// Asks.
pub async fn ask(client: &Client, verb: &str, body: Value) -> Result<Value, Refused> {
    ask_bytes(client, verb, body.to_string().into_bytes()).await
}

/// Asks until somebody answers within so long a time, each time: workers come and go.
pub async fn ask_until_answered(
    client: &Client,
    verb: &str,
    body: &Value,
    within: Duration,
) -> Result<Value, Refused> {
    // No `until_some`: a task that holds its closure cannot be spawned.
    let mut looks = tokio::time::interval(Duration::from_millis(10));
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        looks.tick().await;
        let asked = client.request(format!("wakegate.runs.{verb}"), body.to_string().into());
        if let Ok(Ok(message)) = tokio::time::timeout(within, asked).await {
            match answer(&message) {
                Err(refused) if ["busy", "unavailable"].contains(&refused.code()) => {}
                answered => return answered,
            }
        }
        assert!(tokio::time::Instant::now() < deadline, "{verb} is never answered: {body}");
    }
}

/// What a request is refused with.
pub async fn refusal(client: &Client, verb: &str, body: Value) -> String {
    let refused = ask(client, verb, body).await;
    refused.expect_err("it is refused").code().to_owned()
}

/// A client that waits as long as a claim may.
pub async fn client_of(stage: &Stage) -> Client {
    stage.nats.client_with(ConnectOptions::new().request_timeout(Some(PATIENCE))).await
}

/// Waits until somebody answers runners.
pub async fn until_answering(client: &Client) {
    let looks = async || match client.request("wakegate.runs.heartbeat", "".into()).await {
        Ok(_) => Some(()),
        Err(error) if error.kind() == RequestErrorKind::NoResponders => None,
        Err(error) => panic!("{error}"),
    };
    until_some(looks, || "nobody ever answered runners".to_owned()).await;
}

/// A worker that answers runners, and looks often for what is overdue.
pub async fn worker(stage: &Stage, variables: &[(&str, &str)]) -> (Worker, Client) {
    let all = [&[("WAKEGATE_QUEUE_KEEPER_INTERVAL_MS", "20")], variables].concat();
    let worker = stage.worker_with(&all).await;
    let client = client_of(stage).await;
    until_answering(&client).await;
    (worker, client)
}

/// Claims so many, with a lease of an hour.
pub async fn claim(client: &Client, runs_max: u32, wait_seconds: u32) -> Vec<Value> {
    let body = json!({
        "runner_id": "r1", "runs_max": runs_max, "wait_seconds": wait_seconds,
        "lease_seconds": 3_600,
    });
    let reply = ask(client, "claim", body).await.unwrap();
    reply["runs"].as_array().unwrap().clone()
}

/// Claims one, which is there.
pub async fn claim_one(client: &Client) -> Value {
    let mut runs = claim(client, 1, 0).await;
    assert_eq!(runs.len(), 1, "there is a run");
    runs.remove(0)
}

/// How a run is named by whoever holds it.
pub fn held(run: &Value) -> Value {
    json!({ "run_id": run["run_id"], "fencing_token": run["fencing_token"] })
}

/// The same with more fields.
pub fn with(mut body: Value, more: Value) -> Value {
    let fields = body.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    body
}

/// A run that waits, of an organization; without a project, so that it stands in nobody's way.
pub async fn queue(outside: &Outside, id: u128, organization: &str) -> String {
    let run = OutsideRun { id, organization, task: Some("t"), ..OutsideRun::default() };
    outside.insert_run(&run).await;
    uuid::Uuid::from_u128(id).to_string()
}

/// The status of a run.
pub async fn status(outside: &Outside, id: &str) -> String {
    let runs = outside.runs().await;
    runs.into_iter().find(|run| run.id == id).expect("the run is there").status
}

/// Waits until a run has a status.
pub async fn until_status(outside: &Outside, id: &str, wanted: &str) {
    let look = async || (status(outside, id).await == wanted).then_some(());
    until_some(look, || format!("{id} is never {wanted}")).await;
}

/// How much the queue says there is: queued and active.
pub async fn depth(outside: &Outside) -> (i64, i64) {
    let queued = outside.number("SELECT queued FROM queue_platform").await;
    (queued, outside.number("SELECT active FROM queue_platform").await)
}
