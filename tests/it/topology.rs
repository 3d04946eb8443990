//! The declared streams and consumers on a real server: made, compared, refused.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::pull;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use wakegate::broker::{self, BrokerOptions};
use wakegate::topology::{
    Change, Difference, LANE_GROUP, Topology, TopologyError, WAKES, lane_consumer, render,
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
        request_timeout,
        name: "topology-test".to_owned(),
    };
    broker::connect_once(&options).await.unwrap().jetstream()
}

/// The compiled-in declarations with another number of partitions.
fn with_partitions(count: u32) -> Topology {
    let directory = tempfile::tempdir().unwrap();
    let wakes = include_str!("../../streams/wakes.json");
    let wakes = wakes.replace("partition(8,", &format!("partition({count},"));
    std::fs::write(directory.path().join("wakes.json"), wakes).unwrap();
    let topology = Topology::load(Some(directory.path())).unwrap();
    assert_eq!(topology.partitions(), count);
    topology
}

fn lines(differences: &[Difference]) -> Vec<String> {
    differences.iter().map(ToString::to_string).collect()
}

const ABSENT: [&str; 10] = [
    "stream WAKES: is missing",
    "stream WAKE_AUDIT: is missing",
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
    assert_eq!(first.changes.len(), 10);
    assert!(first.changes.iter().all(|change| matches!(change, Change::Created(_))));
    assert!(first.to_string().starts_with("created stream WAKE_AUDIT\ncreated stream WAKES\n"));
    assert_eq!(topology.check(&server.js, BATCH).await.unwrap(), []);

    let second = topology.apply(&server.js, BATCH).await.unwrap();
    assert_eq!(second.changes, []);
    assert_eq!(second.to_string(), "the server is as declared; nothing was changed\n");
    let facts = topology.verify(&server.js, BATCH).await.unwrap();
    assert_eq!((&*facts.stream, facts.partitions), (WAKES, 8));
    let created = server.ask_well("STREAM.INFO.WAKES", &json!({})).await["created"].to_string();
    assert_eq!(facts.created.to_string()[..26], created[1..27], "{created}");
}

/// Each changeable field: changed on the server, reported in one line, put back by `apply`.
#[tokio::test]
async fn every_difference_is_reported_and_put_back() {
    use On::{Lane, Stream};
    let (server, topology) = Server::applied().await;
    let day = 86_400 * SECOND;
    let transform = |dest: &str| json!({ "src": "wakes.*.*.*", "dest": dest });
    let other_hash = "wakes.{{partition(8,3)}}.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}";
    let four = "wakes.{{partition(4,2,3)}}.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}";
    for (object, field, value, expected, starts) in [
        (
            Stream(WAKES),
            "subjects",
            json!(["wakes.>"]),
            r#"subjects: wanted ["wakes.*.*.*"], found ["wakes.>"]"#,
            false,
        ),
        (
            Stream(WAKES),
            "subject_transform",
            transform(other_hash),
            &format!(
                "subject_transform.dest: wanted wakes.{{{{partition(8,2,3)}}}}.{{{{wildcard(1)}}}}.{{{{wildcard(2)}}}}.{{{{wildcard(3)}}}}, found {other_hash}"
            ),
            false,
        ),
        (
            Stream(WAKES),
            "subject_transform",
            transform(four),
            "partitions: wanted 8, found 4",
            false,
        ),
        (Stream(WAKES), "subject_transform", Value::Null, "", false),
        (Stream(WAKES), "discard", json!("old"), "discard: wanted new, found old", false),
        (Stream(WAKES), "max_age", json!(day), "max_age: wanted 7 d, found 1 d", false),
        (Stream(WAKES), "max_age", json!(8 * day), "max_age: wanted 7 d, found 8 d", true),
        (
            Stream(WAKES),
            "max_msg_size",
            json!(1_024),
            "max_msg_size: wanted 512 KiB, found 1 KiB",
            false,
        ),
        (Stream(WAKES), "max_msgs", json!(10), "max_msgs: wanted unlimited, found 10", false),
        (
            Stream(WAKES),
            "max_msgs_per_subject",
            json!(1),
            "max_msgs_per_subject: wanted unlimited, found 1",
            false,
        ),
        (
            Stream(WAKES),
            "max_bytes",
            json!(1 << 30),
            "max_bytes: wanted unlimited, found 1 GiB",
            true,
        ),
        (
            Stream(WAKES),
            "duplicate_window",
            json!(30 * SECOND),
            "duplicate_window: wanted 2 min, found 30 s",
            false,
        ),
        (Stream(WAKES), "no_ack", json!(true), "no_ack: wanted false, found true", false),
        (
            Stream(WAKES),
            "allow_rollup_hdrs",
            json!(true),
            "allow_rollup_hdrs: wanted false, found true",
            false,
        ),
        (
            Stream(WAKES),
            "description",
            json!("mine"),
            "description: wanted Wake events, kept for redrive; the transform puts the lane's partition in front, found mine",
            true,
        ),
        (Stream("WAKE_AUDIT"), "discard", json!("new"), "discard: wanted old, found new", false),
        (
            Stream("WAKE_AUDIT"),
            "max_msgs_per_subject",
            json!(5),
            "max_msgs_per_subject: wanted 10000, found 5",
            false,
        ),
        (
            Stream("WAKE_AUDIT"),
            "max_msgs_per_subject",
            json!(-1),
            "max_msgs_per_subject: wanted 10000, found unlimited",
            true,
        ),
        (Stream("WAKE_AUDIT"), "max_age", json!(day), "max_age: wanted 30 d, found 1 d", false),
        (Lane(3), "ack_wait", json!(30 * SECOND), "ack_wait: wanted 12 s, found 30 s", false),
        (Lane(3), "max_deliver", json!(5), "max_deliver: wanted unlimited, found 5", false),
        (Lane(3), "max_ack_pending", json!(7), "max_ack_pending: wanted 1000, found 7", false),
        (
            Lane(3),
            "filter_subject",
            json!("wakes.4.>"),
            "filter_subject: wanted wakes.3.>, found wakes.4.>",
            false,
        ),
        (
            Lane(3),
            "priority_timeout",
            json!(60 * SECOND),
            "priority_timeout: wanted 5 s, found 1 min",
            false,
        ),
        (
            Lane(3),
            "priority_groups",
            json!(["other"]),
            r#"priority_groups: wanted ["lane"], found ["other"]"#,
            false,
        ),
        (
            Lane(3),
            "inactive_threshold",
            json!(60 * SECOND),
            "inactive_threshold: wanted none, found 1 min",
            false,
        ),
        (Lane(3), "headers_only", json!(true), "headers_only: wanted false, found true", false),
        (
            Lane(3),
            "description",
            json!("mine"),
            "description: wanted Lane 3: one worker at a time, pinned by the server, found mine",
            true,
        ),
    ] {
        let answer = server.change(object, field, &value).await;
        assert_eq!(answer.get("error"), None, "{field} {value}");
        let differences = topology.check(&server.js, BATCH).await.unwrap();
        let on = match object {
            Stream(name) => format!("stream {name}"),
            Lane(lane) => format!("consumer lane-{lane} of WAKES"),
        };
        if !expected.is_empty() {
            assert_eq!(lines(&differences), [format!("{on}: {expected}")]);
        }
        assert!(!differences.is_empty(), "{field} {value}");

        match topology.verify(&server.js, BATCH).await {
            Ok(_) => assert!(starts, "a worker starts with {field} {value}"),
            Err(error) => {
                assert!(!starts, "a worker does not start with {field} {value}: {error}");
                assert!(error.to_string().ends_with("run: wakegate streams apply\n"), "{error}");
                assert!(!error.is_temporary());
            }
        }
        let report = topology.apply(&server.js, BATCH).await.unwrap();
        assert_eq!(report.changes.len(), 1, "{report}");
        assert_eq!(topology.check(&server.js, BATCH).await.unwrap(), [], "{field} {value}");
    }
}

/// Each unchangeable field: the server does refuse to change it, and the report says what to do.
#[tokio::test]
async fn what_the_server_never_changes_is_named_with_what_to_do() {
    use On::{Lane, Stream};
    let (server, topology) = Server::applied().await;
    let delete_stream = "cannot be changed: stop the publishers, let every lane run dry (wakegate \
                         run --until-caught-up), delete the stream, then run: wakegate streams apply";
    let delete_consumer = "cannot be changed: stop the workers, delete the consumer, then run: \
                           wakegate streams apply; it starts at the beginning of the stream, and \
                           wakes already decided are recognised";
    for (object, field, found, wanted, remedy) in [
        (Stream("WAKE_AUDIT"), "storage", json!("memory"), json!("file"), delete_stream),
        (Stream("WAKE_AUDIT"), "retention", json!("workqueue"), json!("limits"), delete_stream),
        (Stream("WAKE_AUDIT"), "deny_delete", json!(true), json!(false), delete_stream),
        (Stream("WAKE_AUDIT"), "deny_purge", json!(true), json!(false), delete_stream),
        (Stream("WAKE_AUDIT"), "allow_msg_ttl", json!(true), json!(false), delete_stream),
        (Lane(5), "ack_policy", json!("all"), json!("explicit"), delete_consumer),
        (Lane(5), "deliver_policy", json!("new"), json!("all"), delete_consumer),
        (Lane(5), "replay_policy", json!("original"), json!("instant"), delete_consumer),
        (Lane(5), "mem_storage", json!(true), json!(false), delete_consumer),
    ] {
        server.recreate(object, field, &found).await;
        let before = server.config(object).await;
        let plain = |value: &Value| value.to_string().replace('"', "");
        let line =
            format!("  {field}: wanted {}, found {}; {remedy}", plain(&wanted), plain(&found));

        let differences = topology.check(&server.js, BATCH).await.unwrap();
        let text = render(&differences);
        assert!(text.lines().any(|one| one == line), "{text}\nhas no line\n{line}");
        let error = topology.apply(&server.js, BATCH).await.unwrap_err();
        assert!(matches!(error, TopologyError::Unchangeable(_)), "{error}");
        assert!(error.to_string().starts_with("nothing was changed\n"), "{error}");
        assert!(error.to_string().contains(&line), "{error}");
        assert_eq!(server.config(object).await, before, "nothing was changed");
        let refused = server.change(object, field, &wanted).await;
        assert!(refused.get("error").is_some(), "the server does change {field}");

        server.ask_well(&object.delete(), &json!({})).await;
        topology.apply(&server.js, BATCH).await.unwrap();
        assert_eq!(topology.check(&server.js, BATCH).await.unwrap(), []);
    }
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
async fn the_transform_stores_a_wake_under_its_partition_and_keeps_its_tokens() {
    let (server, _) = Server::applied().await;
    let hostile = ["a.b", "*", ">", "a b\n", "", "-", "\u{202e}", "é\"'/:", &"x".repeat(256)];
    for organization in hostile {
        for task in hostile {
            server.publish(organization, task).await;
        }
    }
    let mut received = 0;
    let subjects = server.stored_subjects().await;
    for lane in 0..8 {
        let prefix = format!("wakes.{lane}.");
        let expected: Vec<&String> = subjects.iter().filter(|s| s.starts_with(&prefix)).collect();
        if expected.is_empty() {
            continue;
        }
        let taken = server.take(lane, expected.len()).await;
        assert_eq!(taken.iter().collect::<Vec<_>>(), expected, "in stream order");
        received += taken.len();
    }
    assert_eq!(received, hostile.len() * hostile.len(), "every wake reaches a lane");
    let last = subjects.last().unwrap().split_once(".task_mutation.").unwrap().1;
    let long = token(hostile[8]).into_owned();
    assert_eq!(last, format!("{long}.{long}"));
}

#[tokio::test]
async fn all_wakes_of_a_task_share_a_lane_and_every_lane_is_used() {
    let (server, _) = Server::applied().await;
    for task in 0..100 {
        for producer in ["task_mutation", "onboarding"] {
            for organization in ["acme", "globex"] {
                server.publish_to(&format!("wakes.{producer}.{organization}.task-{task}")).await;
            }
        }
    }
    let mut lanes_of: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    let mut lanes = BTreeSet::new();
    for subject in server.stored_subjects().await {
        let tokens: Vec<&str> = subject.split('.').collect();
        let [_, lane, _, organization, task] = tokens[..] else { panic!("{subject}") };
        lanes.insert(lane.to_owned());
        let task = (organization.to_owned(), task.to_owned());
        lanes_of.entry(task).or_default().insert(lane.to_owned());
    }
    assert_eq!(lanes_of.len(), 200);
    assert!(lanes_of.values().all(|lanes| lanes.len() == 1), "{lanes_of:?}");
    assert_eq!(lanes, (0..8).map(|lane| lane.to_string()).collect());
}

#[tokio::test]
async fn partitions_do_not_change_while_a_wake_is_undecided() {
    let (server, topology) = Server::applied().await;
    server.publish("acme", "task-1").await;
    let subject = server.stored_subjects().await.remove(0);
    let lane: u32 = subject.split('.').nth(1).unwrap().parse().unwrap();
    for count in [4, 16] {
        let error = with_partitions(count).apply(&server.js, BATCH).await.unwrap_err().to_string();
        let expected = format!(
            "the partitions of WAKES cannot change from 8 to {count}: lane-{lane} has 1 wakes \
             pending and 0 in work. Stop the publishers, let every lane run dry"
        );
        assert!(error.starts_with(&expected), "{error}");
    }
    assert_eq!(topology.check(&server.js, BATCH).await.unwrap(), [], "nothing was changed");

    // A lane without a consumer cannot say what it has decided.
    server.ask_well(&On::Lane(7).delete(), &json!({})).await;
    server.take(lane, 1).await;
    let error = with_partitions(4).apply(&server.js, BATCH).await.unwrap_err().to_string();
    assert!(error.contains("lane-7 has no consumer"), "{error}");
    topology.apply(&server.js, BATCH).await.unwrap();

    let fewer = with_partitions(4);
    let before = lines(&fewer.check(&server.js, BATCH).await.unwrap());
    assert_eq!(
        before,
        [
            "stream WAKES: partitions: wanted 4, found 8",
            "consumer lane-4 of WAKES: is of no declared lane",
            "consumer lane-5 of WAKES: is of no declared lane",
            "consumer lane-6 of WAKES: is of no declared lane",
            "consumer lane-7 of WAKES: is of no declared lane",
        ]
    );
    let report = fewer.apply(&server.js, BATCH).await.unwrap();
    let removed = report.changes.iter().filter(|one| matches!(one, Change::Removed(_))).count();
    assert_eq!((report.changes.len(), removed), (5, 4), "{report}");
    assert_eq!(fewer.check(&server.js, BATCH).await.unwrap(), []);
    assert!(topology.verify(&server.js, BATCH).await.is_err(), "a worker of 8 lanes stops");

    let report = with_partitions(16).apply(&server.js, BATCH).await.unwrap();
    assert_eq!(report.changes.len(), 13, "{report}");
    for lane in 0..16 {
        let decided_earlier = u64::from(subject.starts_with(&format!("wakes.{lane}.")));
        let pending = server.pending(lane).await;
        assert!(pending <= decided_earlier, "lane {lane} has {pending} pending");
    }
}

#[tokio::test]
async fn partitions_change_freely_while_the_stream_is_empty() {
    let (server, _) = Server::applied().await;
    for count in [3, 11, 8] {
        with_partitions(count).apply(&server.js, BATCH).await.unwrap();
        let facts = with_partitions(count).verify(&server.js, BATCH).await.unwrap();
        assert_eq!(facts.partitions, count);
        assert_eq!(with_partitions(count).check(&server.js, BATCH).await.unwrap(), []);
    }
}

/// Publishes at every point of `apply` in turn: each time either nothing was changed, or the wake
/// is in a lane that still is.
#[tokio::test]
async fn a_wake_published_while_partitions_change_is_not_left_behind() {
    let (server, topology) = Server::applied().await;
    let fewer = with_partitions(4);
    let mut task = String::new();
    for n in 0.. {
        task = format!("task-{n}");
        server.publish("acme", &task).await;
        if server.stored_subjects().await[n].starts_with("wakes.7.") {
            break;
        }
    }
    let mut outcomes = BTreeSet::new();
    for requests_before in 0..40 {
        server.drain(8).await;
        let publish = async {
            for _ in 0..requests_before {
                server.ask_well("STREAM.INFO.WAKES", &json!({})).await;
            }
            server.publish("acme", &task).await;
        };
        let (applied, ()) = tokio::join!(fewer.apply(&server.js, BATCH), publish);
        let subject = server.stored_subjects().await.pop().unwrap();
        let lane: u32 = subject.split('.').nth(1).unwrap().parse().unwrap();
        match applied {
            Ok(_) => {
                outcomes.insert("changed");
                assert!(lane < 4, "a wake is left behind in lane {lane}");
                assert_eq!(fewer.check(&server.js, BATCH).await.unwrap(), []);
                server.drain(4).await;
                topology.apply(&server.js, BATCH).await.unwrap();
            }
            Err(error) => {
                outcomes.insert("refused");
                assert!(matches!(error, TopologyError::PartitionsInUse { .. }), "{error}");
                assert_eq!(topology.check(&server.js, BATCH).await.unwrap(), []);
            }
        }
    }
    assert_eq!(outcomes, BTreeSet::from(["changed", "refused"]));
}

#[tokio::test]
async fn a_consumer_of_no_lane_with_something_pending_is_kept_and_named() {
    let (server, topology) = Server::applied().await;
    server.publish("acme", "task-1").await;
    let mut config = server.config(On::Lane(0)).await;
    config["durable_name"] = json!("lane-9");
    config["name"] = json!("lane-9");
    config["filter_subject"] = json!("wakes.>");
    assert_eq!(server.create_lane(9, &config).await.get("error"), None);
    let report = topology.apply(&server.js, BATCH).await.unwrap().to_string();
    assert_eq!(report, "kept consumer lane-9 of WAKES: lane-9 has 1 wakes pending and 0 in work\n");
    assert_eq!(topology.verify(&server.js, BATCH).await.unwrap().partitions, 8);
}

#[tokio::test]
async fn wakes_stored_under_no_lane_are_not_left_behind() {
    let (server, topology) = Server::applied().await;
    server.change(On::Stream(WAKES), "subject_transform", &Value::Null).await;
    server.publish("acme", "task-1").await;
    let error = topology.apply(&server.js, BATCH).await.unwrap_err().to_string();
    assert!(error.contains("1 wakes are stored under no lane"), "{error}");
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
