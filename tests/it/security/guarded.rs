//! A nats-server with the users of `ops/nats/users.conf`, and everyone who has one.

use std::fmt::Write as _;
use std::process::Command;

use async_nats::ConnectOptions;
use async_nats::jetstream::{self, Context};
use tempfile::TempDir;

use crate::harness::command::{Ended, ended, wakegate};
use crate::harness::golden::repository;
use crate::harness::nats::{JetStream, Nats};
use crate::harness::outside::Outside;
use crate::harness::sqlite;
use crate::harness::worker::Worker;

/// A user of the file, with its inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Role {
    pub user: &'static str,
    pub inbox_prefix: &'static str,
}

pub const WORKER: Role = Role { user: "worker", inbox_prefix: "_INBOX_worker" };
/// Answers operators, for the worker.
pub const CONTROL: Role = Role { user: "control", inbox_prefix: "_INBOX_control" };
pub const OPERATOR: Role = Role { user: "operator", inbox_prefix: "_INBOX_operator" };
/// Answers runners, for the worker.
pub const QUEUE: Role = Role { user: "queue", inbox_prefix: "_INBOX_queue" };
/// Runs whatever there is.
pub const RUNNER: Role = Role { user: "runner", inbox_prefix: "_INBOX_runs.runner" };
/// Withdraws and cancels runs of organization `acme`.
pub const ACME_RUNS: Role = Role { user: "acme_runs", inbox_prefix: "_INBOX_runs.acme_runs" };
/// Publishes again what was refused or rejected.
pub const REDRIVE: Role = Role { user: "redrive", inbox_prefix: "_INBOX_redrive" };
/// Publishes for every organization.
pub const TASK_MUTATION: Role =
    Role { user: "task_mutation", inbox_prefix: "_INBOX.task_mutation" };
/// Publishes for organization `acme` alone.
pub const ACME: Role = Role { user: "acme", inbox_prefix: "_INBOX.acme" };

const PRODUCERS: [&str; 5] =
    ["task_mutation", "task_lifecycle", "onboarding", "recovery_sweep", "workflow_auto_start"];

impl Role {
    /// Made up for the test.
    pub fn password(self) -> String {
        format!("s3cret-of-{}", self.user)
    }
}

/// Servers with their users, and a SQLite file.
pub struct Guarded {
    pub outside: Outside,
    pub nats: Nats,
    pub directory: TempDir,
    database_url: String,
    _database: TempDir,
}

impl Guarded {
    /// With streams, as the operator applies them.
    pub async fn set() -> Self {
        let users = std::fs::read_to_string(repository().join("ops/nats/users.conf")).unwrap();
        let mut config = String::new();
        let others =
            ["worker", "control", "queue", "runner", "operator", "redrive", "acme_runs", "acme"];
        for user in PRODUCERS.into_iter().chain(others) {
            let password = Role { user, inbox_prefix: "" }.password();
            let user = user.to_uppercase();
            let _ = writeln!(config, "WAKEGATE_NATS_{user}_PASSWORD: \"{password}\"");
        }
        let nats = Nats::start_with(JetStream::On, &(config + &users)).await;
        let (database, database_url) = sqlite::database().await;
        let outside = Outside::Sqlite(sqlx::SqlitePool::connect(&database_url).await.unwrap());
        let directory = tempfile::tempdir().unwrap();
        let guarded = Self { outside, nats, directory, database_url, _database: database };
        let applied = guarded.run(OPERATOR, &["streams", "apply"]);
        assert_eq!(applied.code, Some(0), "{}", applied.stderr);
        guarded
    }

    /// The server's URL with this user in it.
    fn url_of(&self, role: Role) -> String {
        let userinfo = format!("nats://{}:{}@", role.user, role.password());
        self.nats.url().replace("nats://", &userinfo)
    }

    /// `wakegate` as this user.
    pub fn command(&self, role: Role, arguments: &[&str]) -> Command {
        let mut command = wakegate(self.directory.path(), arguments);
        command
            .env("WAKEGATE_NATS_URL", self.url_of(role))
            .env("WAKEGATE_NATS_INBOX_PREFIX", role.inbox_prefix)
            .env("WAKEGATE_NATS_REQUEST_TIMEOUT_MS", "5000")
            .env("WAKEGATE_CONTROL_NATS_URL", self.url_of(CONTROL))
            .env("WAKEGATE_QUEUE_NATS_URL", self.url_of(QUEUE))
            .env("WAKEGATE_DATABASE_URL", &self.database_url);
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, role: Role, arguments: &[&str]) -> Ended {
        ended(&mut self.command(role, arguments))
    }

    /// Publishes one event with the command and returns what became of it.
    pub fn publish(&self, role: Role, producer: &str, event: &str) -> Ended {
        let file = self.directory.path().join("event.json");
        std::fs::write(&file, event).unwrap();
        let file = file.to_str().unwrap();
        self.run(role, &["publish", "--producer", producer, "--outcome", file])
    }

    /// A worker that is ready.
    pub async fn worker(&self) -> Worker {
        let worker = Worker::spawn(self.command(WORKER, &["run"])).await;
        worker.ready().await;
        worker
    }

    /// `JetStream` as this user.
    pub async fn context(&self, role: Role) -> Context {
        let options = ConnectOptions::new()
            .user_and_password(role.user.to_owned(), role.password())
            .custom_inbox_prefix(role.inbox_prefix);
        jetstream::new(self.nats.client_with(options).await)
    }
}
