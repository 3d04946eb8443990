//! Passwords, tokens and seeds are in no log, no error and no answer, whatever goes wrong and however
//! much is logged.

use super::guarded::{Guarded, OPERATOR, Role, TASK_MUTATION, WORKER};
use crate::harness::command::ended;
use crate::harness::http::request;
use crate::harness::postgres;
use crate::harness::worker::Worker;
use crate::through_servers::stage::{Dialect, Stage};

/// A password that must be seen nowhere.
const SECRET: &str = "hunter2-Zq9";

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_logs_everything_logs_no_password() {
    let guarded = Guarded::set().await;
    let database = postgres::database().await;
    let with_password = database.url().replace("postgres@", &format!("postgres:{SECRET}@"));
    let mut command = guarded.command(WORKER, &["run"]);
    command.env("WAKEGATE_DATABASE_URL", with_password).env("WAKEGATE_LOG_LEVEL", "trace");
    let mut worker = Worker::spawn(command).await;
    worker.ready().await;
    let event = r#"{"type":"task.mutated.v1","task_id":"t","new_assignee_agent_profile_id":"a"}"#;
    let published = guarded.publish(TASK_MUTATION, "task_mutation", event);
    assert_eq!(published.code, Some(0), "{}", published.stderr);
    let mut seen = String::new();
    for path in ["/readyz", "/metrics", "/livez"] {
        seen += &request(worker.addr(), "GET", path).await.unwrap().body;
    }
    worker.signal("TERM");
    assert!(worker.ended().await.success());
    seen += &worker.log();
    assert!(seen.contains("TRACE"), "everything is logged");
    assert!(!seen.contains(SECRET), "the database's password is there");
    assert!(!seen.contains(&WORKER.password()), "the password for NATS is there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_or_is_away_is_named_without_its_password() {
    let guarded = Guarded::set().await;
    let mut stage = Stage::set(Dialect::Postgres).await;
    let wrong = format!("nats://worker:{SECRET}@{}", guarded.nats.url().replace("nats://", ""));
    let away = format!("nats://{SECRET}@127.0.0.1:1,nats://u:{SECRET}@127.0.0.1:2");
    for url in [&wrong, &away] {
        for arguments in [&["streams", "check"][..], &["publish", "/dev/null"]] {
            let refused = ended(
                stage
                    .command(arguments)
                    .env("WAKEGATE_NATS_URL", url)
                    .env("WAKEGATE_LOG_LEVEL", "trace"),
            );
            let said = refused.stderr + &refused.stdout;
            assert!(!said.contains(SECRET), "{url} {arguments:?}: {said}");
        }
        // A worker waits, and says for what.
        let mut command = stage.command(&["run"]);
        command.env("WAKEGATE_NATS_URL", url).env("WAKEGATE_LOG_LEVEL", "trace");
        let worker = Worker::spawn(command).await;
        worker.until_logged("waiting for NATS").await;
        let readyz = request(worker.addr(), "GET", "/readyz").await.unwrap().body;
        let said = worker.log() + &readyz;
        assert!(!said.contains(SECRET), "{url}: {said}");
    }

    let server = stage.database_url.clone();
    for url in [
        format!("postgres://u:{SECRET}@127.0.0.1:1/wakes"),
        server.replace("postgres@", &format!("nobody:{SECRET}@")),
        format!("{server}?password={SECRET}&sslmode=require"),
    ] {
        stage.database_url.clone_from(&url);
        let refused = stage.run(&["migrate"]);
        assert_eq!(refused.code, Some(1), "{url}");
        assert!(!refused.stderr.contains(SECRET), "{url}: {}", refused.stderr);
        let mut command = stage.command(&["run"]);
        command.env("WAKEGATE_LOG_LEVEL", "trace");
        let worker = Worker::spawn(command).await;
        worker.until_logged("waiting for the database").await;
        let readyz = request(worker.addr(), "GET", "/readyz").await.unwrap().body;
        let said = worker.log() + &readyz;
        assert!(!said.contains(SECRET), "{url}: {said}");
    }
}

#[test]
fn metrics_and_health_are_for_this_machine_unless_somebody_says_otherwise() {
    let config = wakegate::config::Config::default();
    assert!(config.http.addr.ip().is_loopback(), "{}", config.http.addr);
}

#[tokio::test]
async fn a_seed_of_a_credentials_file_is_not_shown() {
    let guarded = Guarded::set().await;
    let creds = guarded.directory.path().join("worker.creds");
    for text in [
        format!("-----BEGIN NATS USER JWT-----\n{SECRET}\n------END NATS USER JWT------\n"),
        format!("-----BEGIN USER NKEY SEED-----\n{SECRET}\n------END USER NKEY SEED------\n"),
        format!(
            "-----BEGIN NATS USER JWT-----\n{SECRET}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\nSU{SECRET}\n------END USER NKEY SEED------\n"
        ),
    ] {
        std::fs::write(&creds, &text).unwrap();
        let role = Role { user: "", ..OPERATOR };
        let refused = ended(
            guarded
                .command(role, &["streams", "check"])
                .env("WAKEGATE_NATS_URL", guarded.nats.url())
                .env("WAKEGATE_NATS_CREDENTIALS_FILE", &creds)
                .env("WAKEGATE_LOG_LEVEL", "trace"),
        );
        assert!(matches!(refused.code, Some(1 | 2)), "{text}: {}", refused.stderr);
        assert!(!refused.stderr.contains(SECRET), "{}", refused.stderr);
    }
}
