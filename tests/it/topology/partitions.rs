//! Changing the number of partitions: refused while anything is undecided.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use wakegate::topology::{Change, Topology, TopologyError, WAKES};

use super::{BATCH, On, Server, lines};

/// The compiled-in declarations with another number of partitions.
fn with_partitions(count: u32) -> Topology {
    let directory = tempfile::tempdir().unwrap();
    let wakes = include_str!("../../../streams/wakes.json");
    let wakes = wakes.replace("partition(8,", &format!("partition({count},"));
    std::fs::write(directory.path().join("wakes.json"), wakes).unwrap();
    let topology = Topology::load(Some(directory.path())).unwrap();
    assert_eq!(topology.partitions(), count);
    topology
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
