//! Announcements are believed only as far as that costs nothing but time.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use super::fleet::{self, EIGHT, Load, handed_over, until_heard, until_owned, until_shared};
use crate::faults::accounts::add_up;
use crate::harness::nats::{JetStream, Nats};
use crate::harness::until_some;
use crate::through_servers::stage::{Dialect, Stage};

/// A user that may do everything but announce itself, and whoever names none is it.
const MUTE: &str = r#"
authorization {
  users: [{
    user: "mute", password: "mute"
    permissions: {
      publish: { deny: "wake-replicas" }
      subscribe: { deny: "wake-replicas" }
    }
  }]
}
no_auth_user: "mute"
"#;

/// Says again and again that it wants lanes, and never pulls one.
fn ghost(client: async_nats::Client) -> JoinSet<()> {
    let mut haunting = JoinSet::new();
    haunting.spawn(async move {
        let said = json!({
            "replica": "ghost", "stream": "WAKES", "since": i64::MAX, "wants": [4, 5, 6, 7],
        });
        let mut ticks = tokio::time::interval(Duration::from_millis(100));
        loop {
            ticks.tick().await;
            client.publish("wake-replicas", said.to_string().into()).await.unwrap();
        }
    });
    haunting
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_asks_for_lanes_and_never_comes_does_not_leave_them_without_an_owner() {
    let stage = fleet::stage().await;
    let worker = stage.worker().await;
    let load = Load::begin(&stage);
    until_shared(&[&worker], &[8]).await;
    let _haunting = ghost(stage.nats.client().await);
    until_heard(&[&worker], 2).await;

    let given_up = async || (handed_over(&worker).await >= 4.0).then_some(());
    until_some(given_up, || worker.told("it gives nothing up")).await;
    let took = until_owned(&[&worker], tokio::time::Instant::now()).await;
    assert!(took <= 2 * EIGHT.pin_timeout, "owned again after {took:?}");
    let published = load.end().await;
    stage.settled().await;
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.on_stream(), accounts.gone, accounts.lost), (published, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_announcement_moves_nothing() {
    let stage = fleet::stage().await;
    let worker = stage.worker().await;
    let client = stage.nats.client().await;
    let other = json!({ "replica": "other", "stream": "OTHER", "since": 1, "wants": [1] });
    for body in ["", "{}", "null", "\u{0}", &"[".repeat(100_000), &other.to_string()] {
        client.publish("wake-replicas", body.to_owned().into()).await.unwrap();
    }
    let beyond = json!({ "replica": "r", "stream": "WAKES", "since": 1, "owns": [8, u32::MAX] });
    client.publish("wake-replicas", beyond.to_string().into()).await.unwrap();
    until_heard(&[&worker], 2).await;
    until_heard(&[&worker], 1).await;
    let load = Load::begin(&stage);
    until_shared(&[&worker], &[8]).await;
    load.end().await;
    stage.settled().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_may_not_announce_themselves_say_so_and_work_as_ever() {
    let nats = Nats::start_with(JetStream::On, MUTE).await;
    let stage = Stage::bare(Dialect::Postgres, EIGHT, nats).await;
    stage.apply_streams();
    let stage = std::sync::Arc::new(stage);
    let [first, second] = [stage.worker().await, stage.worker().await];
    let load = Load::begin(&stage);
    first.until_logged("do not arrive").await;
    until_heard(&[&first, &second], 1).await;
    until_owned(&[&first, &second], tokio::time::Instant::now()).await;
    first.kill();
    until_shared(&[&second], &[8]).await;
    let published = load.end().await;
    stage.settled().await;
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.on_stream(), accounts.gone, accounts.lost), (published, 0, 0));
}
