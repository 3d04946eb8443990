//! The connection: credentials, a server that is not there yet, a server that goes away.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::time::Duration;

use futures_util::StreamExt as _;
use wakegate::broker::{self, Broker, BrokerOptions, Link, TlsFiles};

use crate::harness::nats::{JetStream, Nats};

const SEEN_WITHIN: Duration = Duration::from_secs(20);

fn options(url: String) -> BrokerOptions {
    BrokerOptions {
        url,
        credentials_file: None,
        tls: TlsFiles::default(),
        inbox_prefix: "_INBOX".to_owned(),
        request_timeout: Duration::from_secs(2),
        name: "broker-test".to_owned(),
    }
}

async fn until(broker: &Broker, what: impl FnMut(&Link) -> bool) -> Link {
    let mut link = broker.link.clone();
    let seen = tokio::time::timeout(SEEN_WITHIN, link.wait_for(what)).await;
    seen.expect("the link changes in time").unwrap().clone()
}

#[tokio::test]
async fn a_service_waits_for_its_server_and_says_what_it_waits_for() {
    let mut nats = Nats::start().await;
    nats.stop();
    let broker = broker::connect(&options(nats.url())).await.unwrap();
    let waiting = until(&broker, |link| matches!(link, Link::Connecting(Some(_)))).await;
    assert_eq!(waiting, Link::Connecting(Some("nats: IO error".into())));
    assert_eq!(format!("nats://{}", broker.servers), nats.url());
    nats.start_again().await;
    tokio::time::timeout(SEEN_WITHIN, broker.connected()).await.unwrap();
    broker.client.flush().await.unwrap();
}

#[tokio::test]
async fn a_server_that_goes_away_and_comes_back_is_seen() {
    let mut nats = Nats::start().await;
    let broker = broker::connect(&options(nats.url())).await.unwrap();
    until(&broker, |link| *link == Link::Up).await;
    nats.kill();
    until(&broker, |link| matches!(link, Link::Down(Some(_)))).await;
    nats.start_again().await;
    until(&broker, |link| *link == Link::Up).await;
}

#[tokio::test]
async fn credentials_in_the_url_are_used_and_never_printed() {
    let users = r#"authorization { users: [{ user: "ann", password: "s3c@ret" }] }"#;
    let nats = Nats::start_with(JetStream::Off, users).await;
    let with = |user: &str| nats.url().replace("nats://", &format!("nats://{user}@"));
    let broker = broker::connect_once(&options(with("ann:s3c%40ret"))).await.unwrap();
    broker.client.flush().await.unwrap();
    assert!(!broker.servers.contains("ann"));

    let refused = broker::connect_once(&options(with("ann:wr0ng"))).await.err().unwrap();
    let expected = format!("cannot connect to NATS at {}: authorization violation", broker.servers);
    assert!(refused.to_string().starts_with(&expected), "{refused}");
    assert!(!format!("{refused} {refused:?}").contains("wr0ng"));
}

#[tokio::test]
async fn a_token_in_the_url_is_used() {
    let nats = Nats::start_with(JetStream::Off, r#"authorization { token: "t0k3n" }"#).await;
    let url = nats.url().replace("nats://", "nats://t0k3n@");
    let broker = broker::connect_once(&options(url)).await.unwrap();
    broker.client.flush().await.unwrap();
}

#[tokio::test]
async fn a_command_does_not_wait_for_a_server_that_is_not_there() {
    let mut nats = Nats::start().await;
    nats.stop();
    let refused = broker::connect_once(&options(nats.url())).await.err().unwrap();
    let text = refused.to_string();
    assert!(text.starts_with("cannot connect to NATS at 127.0.0.1:"), "{text}");
}

#[tokio::test]
async fn a_credentials_file_that_is_not_there_is_named() {
    let mut missing = options("nats://127.0.0.1:1".to_owned());
    missing.credentials_file = Some("/nonexistent/wakegate.creds".into());
    let refused = broker::connect(&missing).await.err().unwrap().to_string();
    assert!(refused.starts_with("the credentials file /nonexistent/wakegate.creds: "), "{refused}");
}

#[tokio::test]
async fn a_private_server_ends_with_its_value_and_not_before() {
    let nats = Nats::start().await;
    let first = nats.client().await;
    let second = nats.client_with(async_nats::ConnectOptions::new().name("second")).await;
    let mut subscription = second.subscribe("greeting").await.unwrap();
    // Its own publish comes behind its subscription; that of another connection may not.
    for client in [&second, &first] {
        client.publish("greeting", "hello".into()).await.unwrap();
        let message = tokio::time::timeout(SEEN_WITHIN, subscription.next()).await.unwrap();
        assert_eq!(message.unwrap().payload, "hello");
    }

    let url = nats.url();
    drop(nats);
    assert!(broker::connect_once(&options(url)).await.is_err());
}
