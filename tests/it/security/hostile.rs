//! Publishers that mean harm, each with the permissions that `ops/nats/users.conf` gives it: one that
//! writes of others, one that takes their keys and message ids, one that floods.

use async_nats::HeaderMap;
use async_nats::HeaderValue;
use async_nats::jetstream::publish::PublishAck;
use serde_json::{Value, json};

use super::guarded::{ACME, Guarded, OPERATOR, TASK_MUTATION};
use super::raw::Raw;
use crate::harness::until_some;

/// Where `acme` may publish.
fn acme_subject(task: &str) -> String {
    format!("wakes.workflow_auto_start.acme.{task}")
}

/// Where the producer of every organization publishes for `umbra`, who is to be harmed.
fn umbra_subject(task: &str) -> String {
    format!("wakes.task_mutation.umbra.{task}")
}

fn requested(organization: &str, task: &str, agent: &str, key: &str) -> String {
    json!({
        "type": "wake.requested.v1", "organization_id": organization, "reason": "review",
        "agent_profile_id": agent, "idempotency_key": key, "payload": { "task_id": task },
    })
    .to_string()
}

async fn publish(
    guarded: &Guarded,
    role: super::guarded::Role,
    subject: String,
    body: String,
    headers: &[(&str, &str)],
) -> Result<PublishAck, String> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(*name, value.parse::<HeaderValue>().unwrap());
    }
    let context = guarded.context(role).await;
    let sent = context.publish_with_headers(subject, map, body.into()).await;
    sent.map_err(|error| error.to_string())?.await.map_err(|error| error.to_string())
}

async fn until_runs(guarded: &Guarded, organization: &str, count: i64) {
    let sql = format!("SELECT count(*) FROM runs WHERE organization_id = '{organization}'");
    let ask = async || (guarded.outside.number(&sql).await == count).then_some(());
    until_some(ask, || format!("{organization} never had {count} runs")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_writes_of_another_organization_is_rejected_and_takes_none_of_its_keys() {
    let guarded = Guarded::set().await;
    let worker = guarded.worker().await;
    // In the body, where no permission looks.
    for (nth, organization) in (0..).zip(["umbra", "", "acme ", "ACME"]) {
        let body = requested(organization, "t1", "a1", "k1");
        publish(&guarded, ACME, acme_subject(&format!("t{nth}")), body, &[]).await.unwrap();
    }
    // A key is its organization's: the same one, used first by another.
    publish(&guarded, ACME, acme_subject("t1"), requested("acme", "t1", "a1", "k1"), &[])
        .await
        .unwrap();
    until_runs(&guarded, "acme", 1).await;
    let body = requested("umbra", "t1", "a1", "k1");
    publish(&guarded, TASK_MUTATION, umbra_subject("t1"), body, &[]).await.unwrap();
    until_runs(&guarded, "umbra", 1).await;
    let others = "SELECT count(*) FROM runs WHERE organization_id NOT IN ('acme', 'umbra')";
    assert_eq!(guarded.outside.number(others).await, 0);
    let rejected = "wakegate_rejected_total{reason=\"subject_mismatch\"}";
    let counted = worker.scrape().await[rejected];
    assert!((counted - 4.0).abs() < f64::EPSILON, "{counted}");
}

/// The stream drops what repeats a message id within its duplicate window, whoever's it was. No
/// permission can bind a header, so an id must not be guessed; and whoever is told of a duplicate
/// it never sent publishes again under another id.
#[tokio::test(flavor = "multi_thread")]
async fn a_squatted_message_id_is_told_to_its_owner_and_counted() {
    let guarded = Guarded::set().await;
    let worker = guarded.worker().await;
    let id = [("Nats-Msg-Id", "umbra.predictable-1")];
    let squat = requested("acme", "t1", "a1", "k1");
    let squatter = publish(&guarded, ACME, acme_subject("t1"), squat, &id).await.unwrap();
    assert!(!squatter.duplicate);

    let wake = requested("umbra", "t1", "a1", "k1");
    let publish_umbra = async |id: &[(&str, &str)]| {
        publish(&guarded, TASK_MUTATION, umbra_subject("t1"), wake.clone(), id).await.unwrap()
    };
    let told = publish_umbra(&id).await;
    assert!(told.duplicate, "the owner is told");
    assert_eq!(told.sequence, squatter.sequence);
    let again = publish_umbra(&[("Nats-Msg-Id", "umbra.5f0c2d1e-not-to-be-guessed")]).await;
    assert!(!again.duplicate);
    until_runs(&guarded, "umbra", 1).await;
    until_runs(&guarded, "acme", 1).await;

    let counted = "wakegate_contract_violations_total{kind=\"message_id\"}";
    let count = worker.scrape().await[counted];
    assert!((count - 1.0).abs() < f64::EPSILON, "the squatter alone: {count}");
}

/// What JetStream would do for a header, were it not for the declaration of the stream.
#[tokio::test(flavor = "multi_thread")]
async fn no_header_of_a_publisher_removes_or_changes_what_others_published() {
    let guarded = Guarded::set().await;
    let operator = guarded.context(OPERATOR).await;
    let mut stream = operator.get_stream("WAKES").await.unwrap();
    let body = requested("umbra", "t1", "a1", "k1");
    publish(&guarded, TASK_MUTATION, umbra_subject("t1"), body, &[]).await.unwrap();

    for header in [
        ("Nats-Rollup", "all"),
        ("Nats-Rollup", "sub"),
        ("Nats-TTL", "1s"),
        ("Nats-Expected-Stream", "WAKE_AUDIT"),
        ("Nats-Expected-Last-Sequence", "99"),
        ("Nats-Expected-Last-Msg-Id", "x"),
        ("Nats-Expected-Last-Subject-Sequence", "99"),
        ("Nats-Incr", "1"),
        ("Nats-Batch-Id", "b"),
        ("Nats-Schedule", "@every 1s"),
        ("Nats-Schedule-Target", "wakes.task_mutation.umbra.t1"),
        ("Nats-Marker-Reason", "Purge"),
        ("KV-Operation", "PURGE"),
        ("Nats-Required-Api-Level", "99"),
    ] {
        // The server may refuse the message; what matters is that only it is touched.
        let body = requested("acme", "t1", "a1", header.0);
        let _ = publish(&guarded, ACME, acme_subject("t1"), body, &[header]).await;
        let state = stream.info().await.unwrap().state.clone();
        assert_eq!(state.first_sequence, 1, "{header:?}");
        assert_eq!(state.messages, state.last_sequence, "{header:?}: nothing was removed");
    }
    let first = stream.get_raw_message(1).await.unwrap();
    assert!(first.subject.ends_with(".task_mutation.umbra.t1"), "{}", first.subject);
    let worker = guarded.worker().await;
    until_runs(&guarded, "umbra", 1).await;
    worker.ready().await;
}

/// The server sends an acknowledgement wherever the publisher wants it, and asks no permission for
/// it: it must be of no use anywhere.
#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_sent_elsewhere_does_nothing_there() {
    let guarded = Guarded::set().await;
    let mut worker = guarded.worker().await;
    let operator = guarded.context(OPERATOR).await;
    let mut hostile = Raw::connect_as(&guarded.nats, ACME.user, &ACME.password()).await;
    let replies = [
        "$JS.API.STREAM.DELETE.WAKES",
        "$JS.API.STREAM.PURGE.WAKES",
        "$JS.API.CONSUMER.DELETE.WAKES.lane-0",
        "$JS.API.CONSUMER.UNPIN.WAKES.lane-0",
        "$JS.ACK.WAKES.lane-0.1.1.1.1.0",
        "_INBOX_worker.a",
        "wakes.task_mutation.umbra.t1",
        "wake-audit.refused.agent_stopped.umbra",
    ];
    for (nth, reply) in (0..).zip(replies) {
        let body = requested("acme", &format!("t{nth}"), "a1", &format!("k{nth}"));
        let subject = acme_subject(&format!("t{nth}"));
        hostile.publish(subject.as_bytes(), reply, b"NATS/1.0\r\n\r\n", body.as_bytes()).await;
        let _ = hostile.errors().await;
    }
    let body = requested("umbra", "t1", "a1", "k1");
    publish(&guarded, TASK_MUTATION, umbra_subject("t1"), body, &[]).await.unwrap();
    until_runs(&guarded, "umbra", 1).await;
    assert!(worker.runs(), "{}", worker.told("it has ended"));
    let checked = guarded.run(OPERATOR, &["streams", "check"]);
    assert_eq!(checked.code, Some(0), "{} {}", checked.stdout, checked.stderr);
    let mut audit = operator.get_stream("WAKE_AUDIT").await.unwrap();
    let mut wakes = operator.get_stream("WAKES").await.unwrap();
    let wakes = wakes.info().await.unwrap().state.messages;
    let audited = audit.info().await.unwrap().state.messages;
    let stored = async |stream: &str, count: u64| {
        let stream = operator.get_stream(stream).await.unwrap();
        let mut all = Vec::new();
        for sequence in 1..=count {
            let message = stream.get_raw_message(sequence).await.unwrap();
            all.push(format!("{} {:?}", message.subject, message.payload));
        }
        all.join("\n")
    };
    assert_eq!(audited, 0, "{}", stored("WAKE_AUDIT", audited).await);
    assert_eq!(wakes, 8, "{}", stored("WAKES", wakes).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_costs_its_own_organization_and_delays_the_others_only() {
    const FLOOD: usize = 3_000;
    let guarded = Guarded::set().await;
    guarded.outside.set_agent("umbra", "stopped", "stopped").await;
    guarded.outside.pause("p1", Some("acme")).await;
    let acme = guarded.context(ACME).await;
    let mut sent = Vec::new();
    for nth in 0..FLOOD {
        let body = requested("acme", &format!("t{nth}"), "a1", &format!("k{nth}"));
        sent.push(acme.publish(acme_subject(&format!("t{nth}")), body.into()).await.unwrap());
    }
    let refused = requested("umbra", "t", "stopped", "k0");
    publish(&guarded, TASK_MUTATION, umbra_subject("t"), refused, &[]).await.unwrap();
    let body = requested("umbra", "t1", "a1", "k1");
    publish(&guarded, TASK_MUTATION, umbra_subject("t1"), body, &[]).await.unwrap();
    for ack in sent {
        ack.await.expect("the stream takes it");
    }

    let worker = guarded.worker().await;
    until_runs(&guarded, "umbra", 1).await;
    let refusals = "SELECT count(*) FROM refused_wakes WHERE organization_id = 'acme'";
    let all = i64::try_from(FLOOD).unwrap();
    let ask = async || (guarded.outside.number(refusals).await == all).then_some(());
    until_some(ask, || worker.told("the flood was never decided")).await;
    assert_eq!(guarded.outside.run_count().await, 1, "none of the flood is a run");
    // What operators must learn of umbra is there beside three thousand events of acme.
    let operator = guarded.context(OPERATOR).await;
    let audit = operator.get_stream("WAKE_AUDIT").await.unwrap();
    let subject = "wake-audit.refused.agent_stopped.umbra";
    let kept = async || audit.get_last_raw_message_by_subject(subject).await.ok();
    let event =
        until_some(kept, || worker.told("umbra's refusal is not on the audit stream")).await;
    let record: Value = serde_json::from_slice(&event.payload).unwrap();
    assert_eq!(record["organization_id"], "umbra");
}
