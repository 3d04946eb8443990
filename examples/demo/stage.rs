//! The private servers, the worker, and everyone who plays a part beside it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use async_nats::Subscriber;
use futures_util::StreamExt;
use serde_json::{Value, json};
use sqlx::SqlitePool;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use wakegate::clock::Clock;

use crate::Result;
use crate::runs::{RUNS, SLOTS};
use crate::servers::{PATIENCE, Process, eventually, free_address, get};

/// Counters by name and labels, as scraped.
pub(crate) type Counters = BTreeMap<String, f64>;

/// Everything the story needs. The fields are dropped in this order.
#[derive(Debug)]
pub(crate) struct Stage {
    audit: Subscriber,
    client: async_nats::Client,
    database: SqlitePool,
    worker: Process,
    nats: Process,
    command: Wakegate,
    directory: TempDir,
}

/// The `wakegate` command, configured for this stage and by nothing else.
#[derive(Debug)]
struct Wakegate {
    program: PathBuf,
    directory: PathBuf,
    environment: [(&'static str, String); 4],
}

impl Stage {
    /// Starts the servers, prepares streams and tables, and waits until the worker is ready.
    pub(crate) async fn set() -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("wakegate-demo-").tempdir()?;
        let (nats, nats_url) = start_nats(&directory).await?;
        let command = Wakegate::in_directory(&directory, nats_url)?;
        command.run_to_end(&["migrate"]).await?;
        command.run_to_end(&["streams", "apply"]).await?;

        let database = SqlitePool::connect(command.setting("WAKEGATE_DATABASE_URL")).await?;
        let client = async_nats::connect(command.setting("WAKEGATE_NATS_URL")).await?;
        let audit = client.subscribe("wake-audit.>").await?;
        client.flush().await?;

        let log = directory.path().join("worker.log");
        let mut worker = Process::start("wakegate run", &mut command.invoke(&["run"]), &log)?;
        let address = command.setting("WAKEGATE_HTTP_ADDR");
        eventually("the worker to be ready", async || {
            worker.still_runs()?;
            Ok(get(address, "/readyz").await)
        })
        .await
        .map_err(|error| worker.account(&error.to_string()))?;
        Ok(Self { audit, client, database, worker, nats, command, directory })
    }

    /// `wakegate publish --outcome`, and the outcome record that it prints.
    pub(crate) async fn publish(&self, producer: &str, event: &str) -> Result<Value> {
        let arguments = ["publish", "--outcome", "--producer", producer, "-"];
        let mut command = tokio::process::Command::from(self.command.invoke(&arguments));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn()?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(event.as_bytes()).await?;
        }
        let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await??;
        let printed = String::from_utf8_lossy(&output.stdout);
        record_in(&printed).ok_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("`wakegate publish` ({}) told no outcome:\n{printed}{errors}", output.status)
                .into()
        })
    }

    /// What a runner does that has only the database: takes whatever is queued, and is done with it.
    pub(crate) async fn claim_all(&self) -> Result<()> {
        sqlx::query(
            "UPDATE runs SET status = 'succeeded', finished_at = ? WHERE status = 'queued'",
        )
        .bind(Clock::system().now().micros())
        .execute(&self.database)
        .await?;
        Ok(())
    }

    /// What an operator does until there is a command for it.
    pub(crate) async fn pause(&self, organization: &str) -> Result<()> {
        sqlx::query(
            "INSERT INTO pauses (id, scope, organization_id, mode, actor, reason, created_at)
             VALUES ('pause-1', 'organization', ?, 'drain', 'demo', 'to be seen', ?)",
        )
        .bind(organization)
        .bind(Clock::system().now().micros())
        .execute(&self.database)
        .await?;
        Ok(())
    }

    /// The first `expected` audit events: subject and record.
    pub(crate) async fn audit_events(&mut self, expected: usize) -> Result<Vec<(String, Value)>> {
        let audit = &mut self.audit;
        let collecting = audit.take(expected).map(|message| {
            let record = serde_json::from_slice(&message.payload).unwrap_or(Value::Null);
            (message.subject.to_string(), record)
        });
        tokio::time::timeout(PATIENCE, collecting.collect())
            .await
            .map_err(|_| format!("fewer than {expected} audit events arrived").into())
    }

    /// What is asked of wakegate by others than its commands.
    pub(crate) fn client(&self) -> &async_nats::Client {
        &self.client
    }

    /// Queues the runs of the second part; how many events that took. What the story has left is not
    /// a part of it.
    pub(crate) async fn queue_runs(&self) -> Result<u32> {
        self.claim_all().await?;
        let mut published = 0;
        for (organization, runs) in RUNS {
            for nth in 1..=runs {
                let event = json!({
                    "type": "task.mutated.v1", "organization_id": organization,
                    "task_id": format!("R-{nth}"), "new_assignee_agent_profile_id": "builder",
                    "assignment_generation": 1,
                });
                let outcome = self.publish("task_mutation", &event.to_string()).await?;
                if outcome["outcome"] != "queued" {
                    return Err(format!("{event} is {outcome}").into());
                }
                published += 1;
            }
        }
        Ok(published)
    }

    /// How many events of those runs the stream has, once it has all: each was claimed, was started and
    /// succeeded.
    pub(crate) async fn run_events(&self) -> Result<usize> {
        let runs: usize = RUNS.iter().map(|(_, runs)| runs).sum();
        let context = async_nats::jetstream::new(self.client.clone());
        eventually("the events of the runs", async || {
            let mut stream = context.get_stream("RUN_EVENTS").await?;
            let mut counted = 0;
            for event in ["claimed", "started"] {
                let config = async_nats::jetstream::consumer::pull::Config {
                    filter_subject: format!("run-events.*.{event}"),
                    ..Default::default()
                };
                let consumer = stream.create_consumer(config).await?;
                counted += usize::try_from(consumer.cached_info().num_pending)?;
            }
            let succeeded = stream.info().await?.state.messages;
            let all = counted == 2 * runs && usize::try_from(succeeded)? >= 3 * runs;
            Ok(all.then_some(3 * runs))
        })
        .await
    }

    /// The counters as Prometheus would scrape them.
    pub(crate) async fn counters(&self) -> Result<Counters> {
        let address = self.command.setting("WAKEGATE_HTTP_ADDR");
        let text = get(address, "/metrics").await.ok_or("/metrics does not answer")?;
        Ok(counters_in(&text))
    }

    /// The counters once they cover this many events: metrics move after the outcome is told.
    pub(crate) async fn counters_after(&self, events: u32) -> Result<Counters> {
        eventually("the metrics to cover every event", async || {
            let counters = self.counters().await?;
            let wakes =
                counters.iter().filter(|(name, _)| name.starts_with("wakegate_wakes_total"));
            let covered = wakes.map(|(_, value)| value).sum::<f64>() >= f64::from(events);
            Ok(covered.then_some(counters))
        })
        .await
    }

    /// Stops the worker as an operator would; the rest ends with this value.
    pub(crate) async fn strike(self) -> Result<()> {
        self.database.close().await;
        self.worker.terminate().await?;
        drop(self.nats);
        Ok(self.directory.close()?)
    }
}

impl Wakegate {
    /// The program that cargo built beside this one.
    fn in_directory(directory: &TempDir, nats_url: String) -> Result<Self> {
        let demo = std::env::current_exe()?;
        let program = demo.parent().and_then(|examples| examples.parent());
        let program = program.ok_or("no directory above the demo's own")?.join("wakegate");
        if !program.exists() {
            return Err(format!("{} is missing: run `cargo build`", program.display()).into());
        }
        let database = directory.path().join("wakegate.db");
        let environment = [
            ("WAKEGATE_NATS_URL", nats_url),
            ("WAKEGATE_DATABASE_URL", format!("sqlite://{}", database.display())),
            ("WAKEGATE_HTTP_ADDR", free_address()?),
            ("WAKEGATE_LIMITS_ACTIVE_RUNS_PLATFORM_MAX", SLOTS.to_string()),
        ];
        Ok(Self { program, directory: directory.path().to_owned(), environment })
    }

    fn setting(&self, name: &str) -> &str {
        let found = self.environment.iter().find(|(key, _)| *key == name);
        found.map_or("", |(_, value)| value)
    }

    /// A command line that no variable and no file of the caller's can change.
    fn invoke(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(&self.directory).env_clear();
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        command
    }

    async fn run_to_end(&self, arguments: &[&str]) -> Result<()> {
        let mut command = tokio::process::Command::from(self.invoke(arguments));
        let output = command.kill_on_drop(true).output();
        let output = tokio::time::timeout(PATIENCE, output).await??;
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        Err(format!("`wakegate {}` ended: {}\n{said}", arguments.join(" "), output.status).into())
    }
}

/// A JetStream server on a free port, which it writes into a file.
async fn start_nats(directory: &TempDir) -> Result<(Process, String)> {
    let here = directory.path();
    let mut command = Command::new("nats-server");
    command.args(["--addr", "127.0.0.1", "--port", "-1", "--jetstream", "--store_dir"]);
    command.arg(here.join("jetstream")).arg("--ports_file_dir").arg(here);
    let mut nats = Process::start("nats-server", &mut command, &here.join("nats.log"))?;
    let ports = here.join(format!("nats-server_{}.ports", nats.id()));
    let url = eventually("nats-server to listen", async || {
        nats.still_runs()?;
        let ports = std::fs::read_to_string(&ports).unwrap_or_default();
        let ports: Value = serde_json::from_str(&ports).unwrap_or_default();
        Ok(ports["nats"][0].as_str().map(str::to_owned))
    })
    .await?;
    Ok((nats, url))
}

/// The first JSON object with an `outcome` in what a command printed.
fn record_in(printed: &str) -> Option<Value> {
    printed.match_indices('{').find_map(|(at, _)| {
        let mut values = serde_json::Deserializer::from_str(&printed[at..]).into_iter::<Value>();
        values.next()?.ok().filter(|value| value.get("outcome").is_some())
    })
}

/// The counters in a scrape: names that end in `_total`.
fn counters_in(text: &str) -> Counters {
    let counter = |line: &str| {
        let (name, value) = line.rsplit_once(' ')?;
        let is_counter = name.split('{').next().is_some_and(|name| name.ends_with("_total"));
        is_counter.then(|| Some((name.to_owned(), value.parse().ok()?))).flatten()
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(counter).collect()
}
