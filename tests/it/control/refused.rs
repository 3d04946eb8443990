//! What is wrong with a request is said, with a code that stays; nothing is done for it.

use serde_json::{Value, json};

use super::asking::{answer, ask, ask_bytes, until_answering};
use crate::harness::until_or;
use crate::through_servers::stage::{Dialect, Stage};

fn pause() -> Value {
    json!({
        "scope": "organization", "organization_id": "acme", "actor": "ann", "reason": "flood",
    })
}

/// A request with fields set, or taken away by null.
fn with(mut request: Value, changes: Value) -> Value {
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            request.as_object_mut().unwrap().remove(name);
        } else {
            request[name] = value.clone();
        }
    }
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_request_is_refused_with_its_field_and_changes_nothing() {
    let stage = Stage::set(Dialect::Sqlite).await;
    let _worker = stage.worker_starting().await;
    let client = stage.nats.client().await;
    until_answering(&client).await;
    let agent = json!({
        "organization_id": "acme", "agent_profile_id": "a", "status": "stopped", "actor": "ann",
        "reason": "r",
    });
    let long = "é".repeat(129);
    for (verb, request, code, field) in [
        ("pause", with(pause(), json!({ "actor": null })), "missing_field", "actor"),
        ("pause", with(pause(), json!({ "reason": null })), "missing_field", "reason"),
        ("pause", with(pause(), json!({ "reason": "" })), "invalid_field", "reason"),
        ("pause", with(pause(), json!({ "reason": "a".repeat(1_025) })), "invalid_field", "reason"),
        ("pause", with(pause(), json!({ "actor": " \n" })), "invalid_field", "actor"),
        ("pause", with(pause(), json!({ "actor": ["ann"] })), "invalid_field", "actor"),
        ("pause", with(pause(), json!({ "scope": "galaxy" })), "invalid_field", "scope"),
        ("pause", with(pause(), json!({ "scope": null })), "missing_field", "scope"),
        (
            "pause",
            with(pause(), json!({ "scope": "platform" })),
            "invalid_field",
            "organization_id",
        ),
        (
            "pause",
            with(pause(), json!({ "organization_id": null })),
            "missing_field",
            "organization_id",
        ),
        (
            "pause",
            with(pause(), json!({ "organization_id": long })),
            "invalid_field",
            "organization_id",
        ),
        (
            "pause",
            with(pause(), json!({ "organization_id": "a\0b" })),
            "invalid_field",
            "organization_id",
        ),
        ("pause", with(pause(), json!({ "mode": "now" })), "invalid_field", "mode"),
        ("pause", with(pause(), json!({ "dry_run": true })), "unknown_field", "dry_run"),
        ("pause", with(pause(), json!({ "": 1 })), "unknown_field", ""),
        ("resume", with(pause(), json!({ "mode": "drain" })), "unknown_field", "mode"),
        ("resume", with(pause(), json!({ "pause_id": "a\0" })), "invalid_field", "pause_id"),
        ("resume", with(pause(), json!({ "pause_id": "" })), "invalid_field", "pause_id"),
        ("pauses", json!({ "limit": 0 }), "invalid_field", "limit"),
        ("pauses", json!({ "limit": 1_001 }), "invalid_field", "limit"),
        ("agent.set", with(agent.clone(), json!({ "status": "gone" })), "invalid_field", "status"),
        (
            "agent.set",
            with(agent.clone(), json!({ "organization_id": null })),
            "missing_field",
            "organization_id",
        ),
        (
            "agent.set",
            with(agent.clone(), json!({ "agent_profile_id": "" })),
            "invalid_field",
            "agent_profile_id",
        ),
        ("agent.set", with(agent, json!({ "reason": null })), "missing_field", "reason"),
        ("agent.get", json!({ "organization_id": "a" }), "missing_field", "agent_profile_id"),
        ("agent.list", json!({ "after": "a" }), "invalid_field", "after"),
        ("counts", json!({ "refusals_seconds": 604_801 }), "invalid_field", "refusals_seconds"),
        ("counts", json!({ "organisation": "a" }), "unknown_field", "organisation"),
        ("health", json!({ "lane": 1 }), "unknown_field", "lane"),
        ("configuration", json!({ "secrets": true }), "unknown_field", "secrets"),
    ] {
        let refused = ask(&client, verb, request.clone()).await.unwrap_err();
        let told = format!("{verb} {request}: {refused:?}");
        assert_eq!((refused.code(), refused.number.as_str()), (code, "400"), "{told}");
        assert_eq!(refused.error["field"], field, "{told}");
        assert!(refused.text.starts_with(code), "{told}");
    }
    for (body, code, number) in [
        (b"".to_vec(), "missing_field", "400"),
        (b"pause acme".to_vec(), "not_json", "400"),
        (b"\xff\xfe{}".to_vec(), "not_json", "400"),
        (b"[1]".to_vec(), "not_an_object", "400"),
        (br#"{"scope":"platform","scope":"platform"}"#.to_vec(), "duplicate_field", "400"),
        (vec![b' '; 64 * 1_024 + 1], "too_large", "413"),
    ] {
        let refused = ask_bytes(&client, "pause", body).await.unwrap_err();
        assert_eq!((refused.code(), refused.number.as_str()), (code, number), "{refused:?}");
    }
    let rows = "SELECT (SELECT count(*) FROM pauses) + (SELECT count(*) FROM agents)";
    assert_eq!(stage.outside.number(rows).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_subject_is_refused() {
    let stage = Stage::set(Dialect::Sqlite).await;
    let _worker = stage.worker_starting().await;
    let client = stage.nats.client().await;
    until_answering(&client).await;
    for forged in ["pauze", "platform", "agent.delete", "agent.*x", "PAUSE", "agent", "\u{202e}x"] {
        let refused = ask(&client, forged, pause()).await.unwrap_err();
        assert_eq!((refused.code(), refused.number.as_str()), ("unknown_verb", "404"), "{forged}");
        assert!(refused.text.contains("agent.set"), "{refused:?} names those that there are");
    }
    // What is deeper is nobody's: the server says so at once.
    for nobodys in ["pause.acme", "health.not-a-worker", "agent.set.acme"] {
        let subject = format!("wakegate.control.{nobodys}");
        let error = client.request(subject, "".into()).await.unwrap_err();
        assert_eq!(error.kind(), async_nats::RequestErrorKind::NoResponders, "{nobodys}");
    }
    assert_eq!(stage.outside.number("SELECT count(*) FROM pauses").await, 0);
}

/// A reply goes where the request says, with the permissions of whoever answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_reply_is_sent_to_an_inbox_only_and_nothing_is_done_for_another() {
    let stage = Stage::set(Dialect::Sqlite).await;
    let worker = stage.worker_starting().await;
    let client = stage.nats.client().await;
    until_answering(&client).await;
    let body = bytes::Bytes::from(pause().to_string());
    let mut told = 0;
    for reply in ["wake-audit.refused.agent_stopped.acme", "elsewhere", "wakes.other.acme.t", "x"] {
        let subject = "wakegate.control.pause";
        client.publish_with_reply(subject, reply.to_owned(), body.clone()).await.unwrap();
        told += 1;
    }
    // A forged verb, and none at all.
    client.publish_with_reply("wakegate.control.x", "elsewhere", body.clone()).await.unwrap();
    client.publish("wakegate.control.pause", body.clone()).await.unwrap();
    told += 2;
    let said = "names no inbox for its reply";
    until_or(|| worker.log().matches(said).count() == told, || worker.told("it did not say so"))
        .await;
    assert_eq!(stage.outside.number("SELECT count(*) FROM pauses").await, 0);
    for name in ["WAKES", "WAKE_AUDIT"] {
        let stream = stage.context.get_stream(name).await.unwrap();
        assert_eq!(stream.cached_info().state.last_sequence, 0, "{name}");
    }
    let inbox = client.new_inbox();
    let mut replies = client.subscribe(inbox.clone()).await.unwrap();
    client.publish_with_reply("wakegate.control.pause", inbox, body).await.unwrap();
    let message = futures_util::StreamExt::next(&mut replies).await.unwrap();
    assert_eq!(answer(&message).unwrap()["created"], true, "an inbox is answered");
}
