//! Who may ask what about runs: the server refuses whom its users do not name, by the subject.

use async_nats::Client;
use serde_json::{Value, json};

use super::asking::{ask, held, until_answering, with};
use crate::harness::until_some;
use crate::security::guarded::{ACME_RUNS, Guarded, OPERATOR, QUEUE, RUNNER, Role, TASK_MUTATION};
use crate::security::raw::Raw;
use crate::through_servers::story::assignment;

async fn client(guarded: &Guarded, role: Role) -> Client {
    guarded.context(role).await.client()
}

async fn claimed(client: &Client) -> Value {
    let body = json!({ "runner_id": "r", "wait_seconds": 30 });
    ask(client, "claim", body).await.unwrap()["runs"][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_does_its_part_of_a_run_and_no_other() {
    let guarded = Guarded::set().await;
    let mut worker = guarded.worker().await;
    let runner = client(&guarded, RUNNER).await;
    until_answering(&runner).await;
    let publish = |task: &str| {
        let event = assignment(task, "a1", 1);
        let told =
            guarded.publish(TASK_MUTATION, "task_mutation", &String::from_utf8_lossy(&event.body));
        assert_eq!(told.code, Some(0), "{}", told.stderr);
    };
    let acme = client(&guarded, ACME_RUNS).await;
    let mut heard = acme.subscribe("run-events.acme.*").await.unwrap();
    acme.flush().await.unwrap();

    publish("t1");
    let run = claimed(&runner).await;
    ask(&runner, "start", held(&run)).await.unwrap();
    let cancel = json!({
        "run_id": run["run_id"], "scope": "organization", "organization_id": "acme",
        "actor": "ann", "reason": "enough",
    });
    let told = ask(&acme, "cancel.acme", cancel.clone()).await.unwrap();
    assert_eq!(told["status"], "cancelling");
    let beat = ask(&runner, "heartbeat", held(&run)).await.unwrap();
    assert_eq!(beat["cancel"]["actor"], "ann");
    let end = with(held(&run), json!({ "status": "cancelled" }));
    ask(&runner, "finish", end).await.unwrap();
    let mut events = Vec::new();
    while events.last().map(String::as_str) != Some("run-events.acme.cancelled") {
        let next = futures_util::StreamExt::next(&mut heard);
        let message = tokio::time::timeout(crate::harness::PATIENCE, next).await.unwrap().unwrap();
        events.push(message.subject.to_string());
    }
    assert_eq!(events.len(), 4, "{events:?}");
    // The platform's people may cancel whatever runs, and read what was told.
    publish("t2");
    let run = claimed(&runner).await;
    let operator = guarded.context(OPERATOR).await;
    let all = json!({ "run_id": run["run_id"], "scope": "platform", "actor": "o", "reason": "r" });
    assert_eq!(ask(&operator.client(), "cancel", all).await.unwrap()["status"], "cancelling");
    let six = async || {
        let mut stream = operator.get_stream("RUN_EVENTS").await.unwrap();
        (stream.info().await.unwrap().state.messages == 6).then_some(())
    };
    until_some(six, || worker.told("not everything is told")).await;

    for (role, subjects) in [
        (RUNNER, ["wakegate.runs.cancel", "wakegate.runs.withdraw.acme", "run-events.acme.failed"]),
        (ACME_RUNS, ["wakegate.runs.claim", "wakegate.runs.cancel", "wakegate.runs.cancel.globex"]),
        (QUEUE, ["wakegate.runs.claim", "run-events.acme.failed", "wake-audit.refused.a.acme"]),
        (TASK_MUTATION, ["wakegate.runs.claim", "run-events.acme.failed", "run-work"]),
    ] {
        let mut raw = Raw::connect_as(&guarded.nats, role.user, &role.password()).await;
        for subject in subjects {
            raw.send(format!("PUB {subject} {}.a 2\r\n{{}}\r\n", role.inbox_prefix).as_bytes())
                .await;
            let errors = raw.errors().await;
            let wanted = format!("'Permissions Violation for Publish to \"{subject}\"'");
            assert!(
                errors.iter().any(|error| error.contains(&wanted)),
                "{}: {errors:?}",
                role.user
            );
        }
    }
    worker.signal("TERM");
    assert!(worker.ended().await.success(), "{}", worker.told("it ends in order"));
    assert!(!worker.log().contains("iolation"), "{}", worker.told("it was denied something"));
}
