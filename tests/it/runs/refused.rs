//! Requests that are not understood, and requests that nobody could be told of.

use serde_json::json;

use super::asking::{ask_bytes, claim, queue, refusal, worker};
use crate::harness::until_or;
use crate::through_servers::stage::{Dialect, Stage};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_wrongly_is_refused_and_nothing_is_done() {
    let stage = Stage::set(Dialect::Sqlite).await;
    let (worker, client) = worker(&stage, &[]).await;
    queue(&stage.outside, 1, "acme").await;
    for (verb, body, code) in [
        ("claim", "nonsense", "not_json"),
        ("claim", "[]", "not_an_object"),
        ("claim", "", "missing_field"),
        ("claim", r#"{"runner_id":"r","typo":1}"#, "unknown_field"),
        ("claim", r#"{"runner_id":"r","runner_id":"s"}"#, "duplicate_field"),
        ("claim", r#"{"runner_id":""}"#, "invalid_field"),
        ("claim", r#"{"runner_id":"a\u0000"}"#, "invalid_field"),
        ("claim", r#"{"runner_id":"r","runs_max":0}"#, "invalid_field"),
        ("start", r#"{"run_id":"x","fencing_token":1}"#, "invalid_field"),
        ("finish", r#"{"run_id":"x"}"#, "invalid_field"),
        ("claims", r#"{"runner_id":"r"}"#, "unknown_verb"),
        ("start.acme", r#"{"runner_id":"r"}"#, "unknown_verb"),
    ] {
        let refused = ask_bytes(&client, verb, body.as_bytes().to_vec()).await.unwrap_err();
        assert_eq!(refused.code(), code, "{verb} {body}");
    }
    let long = ask_bytes(&client, "claim", vec![b' '; 64 * 1_024 + 1]).await.unwrap_err();
    assert_eq!((long.code(), long.number.as_str()), ("too_large", "413"));
    // A run for nobody would be lost for as long as its lease lasts.
    let body = json!({ "runner_id": "r" }).to_string();
    client.publish("wakegate.runs.claim", body.clone().into()).await.unwrap();
    let elsewhere = "wakegate.runs.cancel";
    client.publish_with_reply("wakegate.runs.claim", elsewhere, body.into()).await.unwrap();
    let said = "names no inbox for its reply";
    until_or(|| worker.log().matches(said).count() == 2, || worker.told("it does not say")).await;
    assert_eq!(claim(&client, 9, 0).await.len(), 1, "nothing was claimed before");
    assert_eq!(refusal(&client, "withdraw", json!({})).await, "missing_field");
}
