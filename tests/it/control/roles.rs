//! Who may ask: the server refuses whom its users do not name, by the subject.

use serde_json::json;
use sqlx::Connection as _;

use super::asking::{ask, until_answering};
use crate::harness::golden::repository;
use crate::harness::until_or;
use crate::security::guarded::{Guarded, OPERATOR, TASK_MUTATION, WORKER};
use crate::security::raw::Raw;
use crate::through_servers::stage::{Dialect, Stage};
use crate::through_servers::story::assignment;

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
        "run-events.acme.failed",
    ];
    for reply in elsewhere {
        for subject in ["$SRV.PING", "$SRV.INFO.wakegate", "$SRV.STATS"] {
            client.publish_with_reply(subject, reply.to_owned(), "".into()).await.unwrap();
        }
    }
    // The client logs it too.
    let denied = "NATS reports an error";
    // What answers runners is found too, but by its own name.
    let all = elsewhere.len() * 5;
    until_or(|| worker.log().matches(denied).count() == all, || worker.told("it was not denied"))
        .await;
    for name in ["WAKES", "WAKE_AUDIT", "RUN_EVENTS"] {
        let stream = context.get_stream(name).await.unwrap();
        assert_eq!(stream.cached_info().state.last_sequence, 0, "{name}");
    }
    ask(&client, "health", json!({})).await.unwrap();
}

/// The lanes' connections decide nothing for operators, and those that answer operators decide no
/// wakes.
#[tokio::test(flavor = "multi_thread")]
async fn operators_are_answered_with_a_database_role_of_their_own() {
    let mut stage = Stage::set(Dialect::Postgres).await;
    for role in ["run-role.sql", "control-role.sql"] {
        let grants = repository().join("ops/postgres").join(role);
        stage.outside.execute(&std::fs::read_to_string(grants).unwrap()).await;
    }
    let as_role = |role: &str| {
        stage.database_url.replace("postgres://postgres@", &format!("postgres://{role}@"))
    };
    let (run, control) = (as_role("wakegate_run"), as_role("wakegate_control"));
    stage.database_url = run;
    let mut command = stage.command(&["run"]);
    command.env("WAKEGATE_CONTROL_DATABASE_URL", &control);
    let worker = crate::harness::worker::Worker::spawn(command).await;
    worker.ready().await;
    let client = stage.nats.client().await;
    until_answering(&client).await;
    let platform = json!({ "scope": "platform", "actor": "ann", "reason": "r" });
    ask(&client, "pause", platform.clone()).await.unwrap();
    ask(&client, "resume", platform).await.unwrap();
    for status in ["stopped", "idle"] {
        let agent = json!({
            "organization_id": "acme", "agent_profile_id": "a", "status": status, "actor": "ann",
            "reason": "r",
        });
        ask(&client, "agent.set", agent).await.unwrap();
    }
    let counts = ask(&client, "counts", json!({})).await.unwrap();
    assert_eq!(counts.get("unanswered"), None, "{counts}");
    for verb in ["pauses", "agent.list"] {
        ask(&client, verb, json!({})).await.unwrap();
    }
    let paused = crate::harness::command::ended(
        stage
            .command(&["pause", "--platform", "--reason", "r", "--actor", "ann"])
            .env("WAKEGATE_CONTROL_DATABASE_URL", &control),
    );
    assert_eq!(paused.code, Some(0), "{}", paused.stderr);

    let mut role = sqlx::PgConnection::connect(&control).await.unwrap();
    for sql in [
        "SELECT payload FROM runs",
        "SELECT record FROM refused_wakes",
        "INSERT INTO runs (id, organization_id, agent_profile_id, reason)
         VALUES (gen_random_uuid(), 'a', 'b', 'c')",
        "UPDATE runs SET status = 'cancelled'",
        "DELETE FROM runs",
        "DELETE FROM pauses",
        "UPDATE pauses SET actor = 'bob'",
        "UPDATE pauses SET organization_id = 'umbra'",
        "DELETE FROM agents",
        "UPDATE agents SET organization_id = 'umbra'",
        "SELECT 1 FROM wake_keys",
        "UPDATE lanes SET decided_sequence = 0",
        "CREATE TABLE mine (a int)",
        "DROP TABLE pauses",
        "TRUNCATE pauses",
    ] {
        let refused = sqlx::raw_sql(sql).execute(&mut role).await;
        let code = refused
            .map_err(|error| error.as_database_error().unwrap().code().unwrap().into_owned());
        assert_eq!(code.err().as_deref(), Some("42501"), "{sql}");
    }
}

/// Whoever publishes again reads what was refused, and keeps a record that it cannot take back.
#[tokio::test(flavor = "multi_thread")]
async fn wakes_are_published_again_with_a_database_role_of_their_own() {
    let stage = Stage::set(Dialect::Postgres).await;
    let grants = repository().join("ops/postgres/redrive-role.sql");
    stage.outside.execute(&std::fs::read_to_string(grants).unwrap()).await;
    let url = stage.database_url.replace("postgres://postgres@", "postgres://wakegate_redrive@");
    let worker = stage.worker().await;
    stage.outside.set_agent("acme", "stopped", "stopped").await;
    stage.publish_for_outcome(&assignment("t1", "stopped", 1)).await;
    drop(worker);
    let mut command = stage.command(&["redrive", "--since", "1h", "--execute", "--reason", "r"]);
    command.args(["--actor", "ann"]).env("WAKEGATE_CONTROL_DATABASE_URL", &url);
    let done = crate::harness::command::ended(&mut command);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stdout.contains("\"published\""), "{}", done.stdout);

    let mut role = sqlx::PgConnection::connect(&url).await.unwrap();
    for sql in [
        "SELECT payload FROM runs",
        "SELECT 1 FROM wake_keys",
        "DELETE FROM redrives",
        "UPDATE redrives SET actor = 'bob'",
        "UPDATE redrives SET reason = 'bob'",
        "DELETE FROM refused_wakes",
        "INSERT INTO refused_wakes (wake_id, organization_id, reason, record)
         VALUES (gen_random_uuid(), 'a', 'agent_paused', '{}')",
        "INSERT INTO pauses (scope) VALUES ('platform')",
        "TRUNCATE redrives",
        "CREATE TABLE mine (a int)",
    ] {
        let refused = sqlx::raw_sql(sql).execute(&mut role).await;
        let code = refused
            .map_err(|error| error.as_database_error().unwrap().code().unwrap().into_owned());
        assert_eq!(code.err().as_deref(), Some("42501"), "{sql}");
    }
}
