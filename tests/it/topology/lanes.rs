//! What the transform and the lanes' consumers do with wakes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_nats::jetstream::consumer::pull;
use futures_util::StreamExt as _;
use serde_json::json;
use wakegate::topology::{LANE_GROUP, WAKES, lane_consumer};
use wakegate::wake::token::token;

use super::{On, RECEIVED_WITHIN, Server};

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

/// A publisher may set the header that names the pin; the server adds its own behind it.
#[tokio::test]
async fn the_pin_is_the_last_header_of_its_name() {
    let (server, _) = Server::applied().await;
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Nats-Pin-Id", "forged");
    let subject = "wakes.task_mutation.acme.task-1";
    server.js.publish_with_headers(subject, headers, "{}".into()).await.unwrap().await.unwrap();
    let stored = server.stored_subjects().await.remove(0);
    let lane: u32 = stored.split('.').nth(1).unwrap().parse().unwrap();
    let consumer: async_nats::jetstream::consumer::Consumer<pull::Config> =
        server.js.get_consumer_from_stream(lane_consumer(lane), WAKES).await.unwrap();
    let pulled = consumer.stream().group(LANE_GROUP).expires(Duration::from_secs(1));
    let mut messages = pulled.messages().await.unwrap();
    let next = tokio::time::timeout(RECEIVED_WITHIN, messages.next()).await.unwrap();
    let message = next.unwrap().unwrap();
    let headers = message.headers.as_ref().unwrap();
    let info = server.ask_well(&On::Lane(lane).info(), &json!({})).await;
    let pin = info["priority_groups"][0]["pinned_client_id"].as_str().unwrap();
    assert_eq!(headers.get("Nats-Pin-Id").unwrap().as_str(), "forged");
    assert_eq!(headers.get_last("Nats-Pin-Id").unwrap().as_str(), pin);
}
