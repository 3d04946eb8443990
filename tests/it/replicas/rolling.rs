//! Replicas are started again, one after the other, under load.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::Subscriber;
use futures_util::StreamExt as _;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wakegate::admission::ALLOWANCE_WAKES_MAX;
use wakegate::wake::decode::{Content, decode};

use super::fleet::{self, EIGHT, Load, handed_over, until_owned, until_shared};
use crate::faults::accounts::{add_up, messages};
use crate::harness::worker::Worker;
use crate::through_servers::stage::Stage;

/// A lane changes hands within its pin's time-out; as much again is for a machine that is busy.
const OWNED_WITHIN: Duration = Duration::from_secs(2 * EIGHT.pin_timeout.as_secs());

/// Where and when each wake was decided first, as its outcome says: by stream sequence, the task and
/// the instant.
type Decided = BTreeMap<u64, (String, String)>;

/// Collects outcomes until nobody publishes any more.
fn collect(mut outcomes: Subscriber) -> JoinSet<Decided> {
    let mut collecting = JoinSet::new();
    collecting.spawn(async move {
        let mut decided = Decided::new();
        while let Some(message) = outcomes.next().await {
            let record: Value = serde_json::from_slice(&message.payload).unwrap();
            let text = |field: &str| record[field].as_str().unwrap_or_default().to_owned();
            let sequence = record["stream_sequence"].as_u64().unwrap();
            // A redelivery is told again, later.
            decided.entry(sequence).or_insert((text("task_id"), text("decided_at")));
        }
        decided
    });
    collecting
}

/// What is asserted of order, within each task, hand-overs included: outcomes that were told were
/// decided in stream order; and of the wakes that the allowance counts the first five by stream
/// sequence are admitted, and no other.
async fn in_order(stage: &Stage, decided: &Decided) {
    let mut last: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
    for (sequence, (task, at)) in decided {
        if let Some((before, earlier)) = last.insert(task, (*sequence, at)) {
            assert!(earlier <= at.as_str(), "{task}: {before} at {earlier}, {sequence} at {at}");
        }
    }
    let runs = stage.outside.runs().await;
    let admitted = |agent: &str| runs.iter().any(|run| run.agent_profile_id == agent);
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for message in messages(stage).await {
        let Content::Wake(wake) = decode(&message).content else { continue };
        let agent = wake.agent_profile_id.as_str();
        // Those of an agent have an assignee each, so that none of them is merged.
        if agent.starts_with('x') {
            let body: Value = serde_json::from_slice(&message.body).unwrap();
            let task = body["task_id"].as_str().unwrap().to_owned();
            let nth = seen.entry(task).or_default();
            *nth += 1;
            let expected = *nth <= ALLOWANCE_WAKES_MAX;
            assert_eq!(admitted(agent), expected, "the {nth}th is {agent}, {}", message.sequence);
        }
    }
    assert!(seen.values().any(|wakes| *wakes > ALLOWANCE_WAKES_MAX), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn three_replicas_started_again_one_by_one_under_load_lose_nothing_and_share_the_lanes() {
    let stage = fleet::stage().await;
    let client = stage.nats.client().await;
    let outcomes = client.subscribe("wake-outcomes.>").await.unwrap();
    client.flush().await.unwrap();
    let mut collecting = collect(outcomes);
    let mut workers = vec![stage.worker().await, stage.worker().await, stage.worker().await];
    let load = Load::begin(&stage);
    until_shared(&workers.iter().collect::<Vec<_>>(), &[3, 3, 2]).await;

    // In order, one after the other; then one of them as a crash would.
    for round in 0..4 {
        let mut leaving = workers.remove(0);
        let since = Instant::now();
        if round < 3 {
            leaving.signal("TERM");
            assert!(leaving.ended().await.success(), "{}", leaving.told("it ends in order"));
        } else {
            leaving.kill();
        }
        let left: Vec<&Worker> = workers.iter().collect();
        let took = until_owned(&left, since).await;
        assert!(took <= OWNED_WITHIN, "round {round}: owned after {took:?}");
        workers.push(stage.worker().await);
        load.more(50).await;
    }
    let all: Vec<&Worker> = workers.iter().collect();
    until_shared(&all, &[3, 3, 2]).await;
    let published = load.end().await;
    stage.settled().await;

    let accounts = add_up(&stage).await;
    assert_eq!((accounts.on_stream(), accounts.gone, accounts.lost), (published, 0, 0));
    client.drain().await.unwrap();
    let decided = collecting.join_next().await.unwrap().unwrap();
    // A worker that is killed may not have told its last batch.
    assert!(decided.len() + 8 * 16 >= published, "{} of {published} told", decided.len());
    in_order(&stage, &decided).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_joiner_gets_its_share_and_what_a_leaver_had_is_shared() {
    let stage = fleet::stage().await;
    let first = stage.worker().await;
    let load = Load::begin(&stage);
    until_shared(&[&first], &[8]).await;
    let mut second = stage.worker().await;
    until_shared(&[&first, &second], &[4, 4]).await;
    assert!(handed_over(&first).await >= 4.0);
    let third = stage.worker().await;
    until_shared(&[&first, &second, &third], &[3, 3, 2]).await;

    second.signal("TERM");
    until_shared(&[&first, &third], &[4, 4]).await;
    assert!(second.ended().await.success(), "{}", second.told("it ends in order"));
    third.kill();
    until_shared(&[&first], &[8]).await;

    let published = load.end().await;
    stage.settled().await;
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.on_stream(), accounts.gone, accounts.lost), (published, 0, 0));
}
