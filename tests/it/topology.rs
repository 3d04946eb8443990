//! The declared streams and consumers on a real server: made, compared, refused.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod differences;
mod lanes;
mod partitions;

use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::pull;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use wakegate::broker::{self, BrokerOptions, TlsFiles};
use wakegate::topology::{
    Change, Difference, LANE_GROUP, Topology, TopologyError, WAKES, lane_consumer,
};
use wakegate::wake::token::token;

use crate::harness::nats::{JetStream, Nats};

const BATCH: u32 = 500;
const SECOND: i64 = 1_000_000_000;
const RECEIVED_WITHIN: Duration = Duration::from_secs(20);

/// A server, and JetStream on it.
struct Server {
    nats: Nats,
    js: Context,
}

impl Server {
    async fn start() -> Self {
        let nats = Nats::start().await;
        let js = context(&nats.url(), Duration::from_secs(5)).await;
        Self { nats, js }
    }

    async fn applied() -> (Self, Topology) {
        let server = Self::start().await;
        let topology = Topology::load(None).unwrap();
        topology.apply(&server.js, BATCH).await.unwrap();
        (server, topology)
    }

    async fn ask(&self, subject: &str, body: &Value) -> Value {
        self.js.request(subject.to_owned(), body).await.unwrap()
    }

    async fn ask_well(&self, subject: &str, body: &Value) -> Value {
        let answer = self.ask(subject, body).await;
        assert_eq!(answer.get("error"), None, "{subject} {body}");
        answer
    }

    async fn config(&self, object: On) -> Value {
        self.ask_well(&object.info(), &json!({})).await["config"].clone()
    }

    /// Asks the server to change one field behind wakegate's back.
    async fn change(&self, object: On, field: &str, value: &Value) -> Value {
        let mut config = self.config(object).await;
        config[field] = value.clone();
        match object {
            On::Stream(name) => self.ask(&format!("STREAM.UPDATE.{name}"), &config).await,
            On::Lane(lane) => self.create_lane(lane, &config).await,
        }
    }

    /// Makes the object anew with one field otherwise.
    async fn recreate(&self, object: On, field: &str, value: &Value) {
        let mut config = self.config(object).await;
        config[field] = value.clone();
        self.ask_well(&object.delete(), &json!({})).await;
        let answer = match object {
            On::Stream(name) => self.ask(&format!("STREAM.CREATE.{name}"), &config).await,
            On::Lane(lane) => self.create_lane(lane, &config).await,
        };
        assert_eq!(answer.get("error"), None, "{field}");
    }

    async fn create_lane(&self, lane: u32, config: &Value) -> Value {
        let subject = format!("CONSUMER.CREATE.{WAKES}.lane-{lane}");
        self.ask(&subject, &json!({ "stream_name": WAKES, "config": config })).await
    }

    async fn publish(&self, organization: &str, task: &str) {
        self.publish_to(&format!("wakes.task_mutation.{}.{}", token(organization), token(task)))
            .await;
    }

    async fn publish_to(&self, subject: &str) {
        self.js.publish(subject.to_owned(), "{}".into()).await.unwrap().await.unwrap();
    }

    async fn stored_subjects(&self) -> Vec<String> {
        let mut stream = self.js.get_stream(WAKES).await.unwrap();
        let last = stream.info().await.unwrap().state.last_sequence;
        let mut subjects = Vec::new();
        for sequence in 1..=last {
            subjects.push(stream.get_raw_message(sequence).await.unwrap().subject.to_string());
        }
        subjects
    }

    /// Lets the first `lanes` lanes run dry.
    async fn drain(&self, lanes: u32) {
        for lane in 0..lanes {
            let pending = usize::try_from(self.pending(lane).await).unwrap();
            if pending > 0 {
                self.take(lane, pending).await;
            }
        }
    }

    async fn pending(&self, lane: u32) -> u64 {
        let info = self.ask_well(&On::Lane(lane).info(), &json!({})).await;
        info["num_pending"].as_u64().unwrap() + info["num_ack_pending"].as_u64().unwrap()
    }

    /// Takes `count` wakes of a lane as a worker does, acknowledges them, and returns their
    /// subjects.
    async fn take(&self, lane: u32, count: usize) -> Vec<String> {
        let consumer: async_nats::jetstream::consumer::Consumer<pull::Config> =
            self.js.get_consumer_from_stream(lane_consumer(lane), WAKES).await.unwrap();
        let messages = consumer
            .stream()
            .group(LANE_GROUP)
            .max_messages_per_batch(500)
            .expires(Duration::from_secs(1))
            .messages()
            .await
            .unwrap();
        let taken = messages.take(count).then(async |message| {
            let message = message.unwrap();
            message.double_ack().await.unwrap();
            message.subject.to_string()
        });
        let taken = tokio::time::timeout(RECEIVED_WITHIN, taken.collect()).await.unwrap();
        // Else the next one to pull waits until the pin times out.
        let subject = format!("CONSUMER.UNPIN.{WAKES}.lane-{lane}");
        self.ask_well(&subject, &json!({ "group": LANE_GROUP })).await;
        taken
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Stream(&'static str),
    Lane(u32),
}

impl On {
    fn info(self) -> String {
        match self {
            Self::Stream(name) => format!("STREAM.INFO.{name}"),
            Self::Lane(lane) => format!("CONSUMER.INFO.{WAKES}.lane-{lane}"),
        }
    }

    fn delete(self) -> String {
        match self {
            Self::Stream(name) => format!("STREAM.DELETE.{name}"),
            Self::Lane(lane) => format!("CONSUMER.DELETE.{WAKES}.lane-{lane}"),
        }
    }
}

async fn context(url: &str, request_timeout: Duration) -> Context {
    let options = BrokerOptions {
        url: url.to_owned(),
        credentials_file: None,
        tls: TlsFiles::default(),
        inbox_prefix: "_INBOX".to_owned(),
        request_timeout,
        name: "topology-test".to_owned(),
    };
    broker::connect_once(&options).await.unwrap().jetstream()
}

fn lines(differences: &[Difference]) -> Vec<String> {
    differences.iter().map(ToString::to_string).collect()
}

const ABSENT: [&str; 11] = [
    "stream WAKES: is missing",
    "stream WAKE_AUDIT: is missing",
    "stream RUN_EVENTS: is missing",
    "consumer lane-0 of WAKES: is missing",
    "consumer lane-1 of WAKES: is missing",
    "consumer lane-2 of WAKES: is missing",
    "consumer lane-3 of WAKES: is missing",
    "consumer lane-4 of WAKES: is missing",
    "consumer lane-5 of WAKES: is missing",
    "consumer lane-6 of WAKES: is missing",
    "consumer lane-7 of WAKES: is missing",
];

#[tokio::test]
async fn apply_makes_everything_from_nothing_and_then_changes_nothing() {
    let server = Server::start().await;
    let topology = Topology::load(None).unwrap();
    assert_eq!(lines(&topology.check(&server.js, BATCH).await.unwrap()), ABSENT);

    let first = topology.apply(&server.js, BATCH).await.unwrap();
    assert_eq!(first.changes.len(), 11);
    assert!(first.changes.iter().all(|change| matches!(change, Change::Created(_))));
    let order = "created stream WAKE_AUDIT\ncreated stream RUN_EVENTS\ncreated stream WAKES\n";
    assert!(first.to_string().starts_with(order), "{first}");
    assert_eq!(topology.check(&server.js, BATCH).await.unwrap(), []);

    let second = topology.apply(&server.js, BATCH).await.unwrap();
    assert_eq!(second.changes, []);
    assert_eq!(second.to_string(), "the server is as declared; nothing was changed\n");
    let facts = topology.verify(&server.js, BATCH).await.unwrap();
    assert_eq!((&*facts.stream, facts.partitions), (WAKES, 8));
    let created = server.ask_well("STREAM.INFO.WAKES", &json!({})).await["created"].to_string();
    assert_eq!(facts.created.to_string()[..26], created[1..27], "{created}");
}

#[tokio::test]
async fn fields_that_the_declaration_does_not_name_are_kept() {
    let (server, topology) = Server::applied().await;
    server.change(On::Stream(WAKES), "allow_direct", &json!(true)).await;
    server.change(On::Stream(WAKES), "metadata", &json!({ "owner": "platform" })).await;
    server.change(On::Lane(0), "sample_freq", &json!("10%")).await;
    assert_eq!(topology.check(&server.js, BATCH).await.unwrap(), []);
    server.change(On::Stream(WAKES), "max_age", &json!(SECOND * 3_600)).await;
    server.change(On::Lane(0), "ack_wait", &json!(SECOND)).await;
    assert_eq!(topology.apply(&server.js, BATCH).await.unwrap().changes.len(), 2);
    let stream = server.config(On::Stream(WAKES)).await;
    assert_eq!(
        (&stream["allow_direct"], &stream["metadata"]["owner"]),
        (&json!(true), &json!("platform"))
    );
    assert_eq!(server.config(On::Lane(0)).await["sample_freq"], "10%");
}

#[tokio::test]
async fn a_missing_stream_is_named_with_what_to_run() {
    let (server, topology) = Server::applied().await;
    server.ask_well("STREAM.DELETE.WAKE_AUDIT", &json!({})).await;
    let error = topology.verify(&server.js, BATCH).await.unwrap_err();
    let expected = "the server is not as declared\nstream WAKE_AUDIT\n  is missing\n1 difference; \
                    run: wakegate streams apply\n";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn a_server_without_jetstream_is_named() {
    let nats = Nats::start_with(JetStream::Off, "").await;
    let js = context(&nats.url(), Duration::from_secs(5)).await;
    let topology = Topology::load(None).unwrap();
    for error in [
        topology.apply(&js, BATCH).await.map(drop).unwrap_err(),
        topology.check(&js, BATCH).await.map(drop).unwrap_err(),
        topology.verify(&js, BATCH).await.map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, TopologyError::NoJetStream), "{error}");
        assert!(error.to_string().contains("has no JetStream: enable it"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_is_gone_is_worth_asking_again() {
    let mut nats = Nats::start().await;
    let js = context(&nats.url(), Duration::from_millis(300)).await;
    nats.kill();
    let error = Topology::load(None).unwrap().verify(&js, BATCH).await.unwrap_err();
    assert!(error.is_temporary(), "{error}");
    assert_eq!(error.to_string(), "not connected to NATS");
}

/// The permissions that `docs/operations.md` gives a worker, less those for the lanes' work.
#[tokio::test]
async fn a_worker_verifies_with_its_permissions_and_a_denied_request_is_named() {
    let users = r#"
        accounts { WORK { jetstream: enabled, users: [
            { user: operator, password: o },
            { user: worker, password: w, permissions: {
                publish: ["$JS.API.STREAM.INFO.WAKES", "$JS.API.STREAM.INFO.WAKE_AUDIT",
                          "$JS.API.STREAM.INFO.RUN_EVENTS",
                          "$JS.API.CONSUMER.INFO.WAKES.*"]
                subscribe: ["_INBOX.>"] } }
        ] } }
    "#;
    let nats = Nats::start_with(JetStream::On, users).await;
    let url = |user: &str| nats.url().replace("nats://", &format!("nats://{user}@"));
    let operator = context(&url("operator:o"), Duration::from_secs(5)).await;
    let topology = Topology::load(None).unwrap();
    topology.apply(&operator, BATCH).await.unwrap();

    let worker = context(&url("worker:w"), Duration::from_millis(500)).await;
    topology.verify(&worker, BATCH).await.unwrap();
    let error = topology.check(&worker, BATCH).await.unwrap_err();
    let expected = "no answer to $JS.API.CONSUMER.NAMES.WAKES: the server is too slow, or this \
                    user may not publish there";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn an_in_order_restart_and_a_crash_keep_streams_and_their_age() {
    let (mut server, topology) = Server::applied().await;
    let before = topology.verify(&server.js, BATCH).await.unwrap();
    for crash in [false, true] {
        if crash {
            server.nats.kill();
        } else {
            server.nats.stop();
        }
        server.nats.start_again().await;
        server.js = context(&server.nats.url(), Duration::from_secs(5)).await;
        assert_eq!(topology.verify(&server.js, BATCH).await.unwrap(), before);
    }
}
