//! Who may ask: the server refuses whom its users do not name, by the subject.

use serde_json::json;

use super::asking::{ask, until_answering};
use crate::harness::until_or;
use crate::security::guarded::{Guarded, OPERATOR, TASK_MUTATION, WORKER};
use crate::security::raw::Raw;

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_may_ask_and_a_publisher_may_not() {
    let guarded = Guarded::set().await;
    let worker = guarded.worker().await;
    let context = guarded.context(OPERATOR).await;
    let client = context.client();
    until_answering(&client).await;
    let platform = json!({ "scope": "platform", "actor": "ann", "reason": "r" });
    assert_eq!(ask(&client, "pause", platform.clone()).await.unwrap()["created"], true);
    assert_eq!(ask(&client, "resume", platform).await.unwrap()["released"], true);
    for verb in ["pauses", "agent.list", "counts", "health", "configuration"] {
        ask(&client, verb, json!({})).await.unwrap();
    }
    let status = guarded.run(OPERATOR, &["status"]);
    assert_eq!((status.code, status.stderr.as_str()), (Some(0), ""), "{}", status.stdout);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["workers"].as_array().unwrap().len(), 1, "found by discovery");

    for role in [TASK_MUTATION, WORKER] {
        let mut raw = Raw::connect_as(&guarded.nats, role.user, &role.password()).await;
        for subject in ["wakegate.control.pause", "wakegate.control.health", "$SRV.PING"] {
            raw.send(format!("PUB {subject} {}.a 2\r\n{{}}\r\n", role.inbox_prefix).as_bytes())
                .await;
            let errors = raw.errors().await;
            let wanted = format!("'Permissions Violation for Publish to \"{subject}\"'");
            assert_eq!(errors, [wanted], "{} asks {subject}", role.user);
        }
    }
    assert_eq!(guarded.outside.number("SELECT count(*) FROM pauses").await, 1);
    assert!(!worker.log().contains("iolation"), "{}", worker.told("it was denied something"));
}

/// Discovery answers wherever it is told to; its user may publish to operators only.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_borrows_no_permission_from_the_service() {
    let guarded = Guarded::set().await;
    let worker = guarded.worker().await;
    let context = guarded.context(OPERATOR).await;
    let client = context.client();
    until_answering(&client).await;
    let elsewhere = [
        "wake-audit.refused.agent_stopped.acme",
        "wakes.task_mutation.acme.t1",
        "_INBOX_worker.a",
        "wake-outcomes.a",
    ];
    for reply in elsewhere {
        for subject in ["$SRV.PING", "$SRV.INFO.wakegate", "$SRV.STATS"] {
            client.publish_with_reply(subject, reply.to_owned(), "".into()).await.unwrap();
        }
    }
    let denied = "Permissions Violation for Publish to";
    let all = elsewhere.len() * 3;
    until_or(|| worker.log().matches(denied).count() == all, || worker.told("it was not denied"))
        .await;
    for name in ["WAKES", "WAKE_AUDIT"] {
        let stream = context.get_stream(name).await.unwrap();
        assert_eq!(stream.cached_info().state.last_sequence, 0, "{name}");
    }
    ask(&client, "health", json!({})).await.unwrap();
}
