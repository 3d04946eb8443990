//! What waits for nats-server in the client.

use std::time::Duration;

use futures_util::FutureExt as _;
use wakegate::broker::{self, BrokerOptions, Link, TlsFiles};

use crate::harness::PATIENCE;
use crate::harness::nats::Nats;

/// Commands that the client queues (its `client_capacity`).
const COMMANDS_MAX: usize = 2_048;

#[tokio::test]
async fn so_many_messages_wait_for_a_server_that_is_away_and_the_next_waits_itself() {
    let mut nats = Nats::start().await;
    let options = BrokerOptions {
        url: nats.url(),
        credentials_file: None,
        tls: TlsFiles::default(),
        inbox_prefix: "_INBOX".to_owned(),
        request_timeout: Duration::from_secs(5),
        name: "limits-test".to_owned(),
    };
    let broker = broker::connect(&options).await.unwrap();
    let mut link = broker.link.clone();
    tokio::time::timeout(PATIENCE, link.wait_for(|link| *link == Link::Up)).await.unwrap().unwrap();
    nats.kill();
    let down = link.wait_for(|link| matches!(link, Link::Down(_)));
    tokio::time::timeout(PATIENCE, down).await.unwrap().unwrap();

    let publish = || broker.client.publish("nobody.listens", "x".into());
    let mut queued = 0;
    // Without tokio's budget of a task, which would end the loop after some hundred.
    while tokio::task::unconstrained(publish()).now_or_never().is_some() {
        queued += 1;
        assert!(queued <= COMMANDS_MAX, "the queue has no bound");
    }
    assert_eq!(queued, COMMANDS_MAX);
    nats.start_again().await;
    tokio::time::timeout(PATIENCE, publish()).await.expect("the queue moves on").unwrap();
}
