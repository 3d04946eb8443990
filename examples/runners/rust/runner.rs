//! A runner: claims runs, gives each payload to a command on its standard input, keeps the lease while
//! it works, and says how it ended.
//!
//! `cargo run --example runner -- <runner id> <command> [argument...]`

pub(crate) mod asking;

use std::env;
use std::error::Error;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_nats::{Client, ConnectOptions};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use uuid::{Builder, Uuid};

use self::asking::{ask, refused};

/// How long a claim waits for work. It is answered as soon as there is some.
const WAIT_SECONDS: u64 = 30;
/// For how long a run is ours without a heartbeat; one is sent every third of it.
const LEASE_SECONDS: u64 = 15;

pub(crate) type Fault = Box<dyn Error + Send + Sync>;

/// One runner.
pub(crate) struct Runner {
    client: Client,
    id: String,
    command: Vec<String>,
}

impl Runner {
    /// Claims one run and sees it through; nothing where there was no work.
    async fn run_one(&self) -> Result<Option<Value>, Fault> {
        let claim = json!({
            "runner_id": self.id,
            // The same claim again, because its answer was lost, is given the same run.
            "claim_id": random_uuid(),
            "wait_seconds": WAIT_SECONDS,
            "lease_seconds": LEASE_SECONDS,
        });
        let claimed = ask(&self.client, "claim", &claim).await?;
        let Some(run) = claimed["runs"].get(0) else { return Ok(None) };
        let held = json!({ "run_id": run["run_id"], "fencing_token": run["fencing_token"] });
        let mut told = held.clone();
        told["organization_id"] = run["organization_id"].clone();
        told["traceparent"] = run["traceparent"].clone();
        told["status"] = self.see_through(&held).await?.into();
        Ok(Some(told))
    }

    /// From `start` to `finish`; how it has ended.
    async fn see_through(&self, held: &Value) -> Result<String, Fault> {
        let mut start = held.clone();
        start["lease_seconds"] = LEASE_SECONDS.into();
        let started = match ask(&self.client, "start", &start).await {
            Ok(started) => started,
            // Nothing has begun, and nothing is to.
            Err(fault) if refused(&fault, "cancelling") => {
                return self.finish(held, "cancelled", None).await;
            }
            Err(fault) if is_lost(&fault) => return Ok("lost".to_owned()),
            Err(fault) => return Err(fault),
        };
        let payload = started["payload"].as_str().unwrap_or_default();
        let child = self.begin(payload).await;
        let mut child = match child {
            Ok(child) => child,
            Err(error) => return self.finish(held, "failed", Some(error.to_string())).await,
        };
        match self.work(&mut child, &start).await? {
            Work::Ended(status) if status.success() => self.finish(held, "succeeded", None).await,
            Work::Ended(status) => self.finish(held, "failed", Some(status.to_string())).await,
            Work::Cancelled => self.finish(held, "cancelled", None).await,
            // Somebody else says how it has ended.
            Work::Lost => Ok("lost".to_owned()),
        }
    }

    async fn begin(&self, payload: &str) -> Result<Child, Fault> {
        let (program, arguments) = self.command.split_first().ok_or("no command")?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(mut input) = child.stdin.take() {
            // A command that does not read it ends as it ends.
            let _ = input.write_all(payload.as_bytes()).await;
        }
        Ok(child)
    }

    /// Keeps the lease while the command works, and ends the command where it is not ours any more.
    async fn work(&self, child: &mut Child, held: &Value) -> Result<Work, Fault> {
        let mut beats = tokio::time::interval(Duration::from_secs(LEASE_SECONDS) / 3);
        loop {
            tokio::select! {
                ended = child.wait() => return Ok(Work::Ended(ended?)),
                _ = beats.tick() => {}
            }
            match ask(&self.client, "heartbeat", held).await {
                Ok(beat) if beat.get("cancel").is_some() => {
                    child.kill().await?;
                    return Ok(Work::Cancelled);
                }
                Ok(_) => {}
                Err(fault) if is_lost(&fault) => {
                    child.kill().await?;
                    return Ok(Work::Lost);
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    async fn finish(
        &self,
        held: &Value,
        status: &str,
        reason: Option<String>,
    ) -> Result<String, Fault> {
        let mut finish = held.clone();
        finish["status"] = status.into();
        finish["reason"] = reason.into();
        match ask(&self.client, "finish", &finish).await {
            Ok(_) => Ok(status.to_owned()),
            Err(fault) if is_lost(&fault) => Ok("lost".to_owned()),
            Err(fault) => Err(fault),
        }
    }
}

enum Work {
    Ended(ExitStatus),
    Cancelled,
    Lost,
}

/// Whether the run is somebody else's by now, or has ended.
fn is_lost(fault: &Fault) -> bool {
    ["lease_lost", "already_ended", "unknown_run"].iter().any(|code| refused(fault, code))
}

/// `Uuid::new_v4()`, where the crate's feature `v4` is on.
fn random_uuid() -> Uuid {
    Builder::from_random_bytes(rand::random()).into_uuid()
}

/// Runs what the arguments say, as the settings say; `told` hears of each run. With the setting `RUNS`
/// it ends after so many.
pub(crate) async fn run(
    arguments: &[String],
    setting: impl Fn(&str) -> Option<String>,
    mut told: impl FnMut(&Value),
) -> Result<(), Fault> {
    let [id, command @ ..] = arguments else { return Err("wants <runner id> <command>".into()) };
    let or = |name: &str, default: &str| setting(name).unwrap_or_else(|| default.to_owned());
    let mut options = ConnectOptions::new().custom_inbox_prefix(or("NATS_INBOX_PREFIX", "_INBOX"));
    if let Some(user) = setting("NATS_USER") {
        options = options.user_and_password(user, or("NATS_PASSWORD", ""));
    }
    let client = options.connect(or("NATS_URL", "nats://127.0.0.1:4222")).await?;
    let mut left: Option<u64> = setting("RUNS").map(|runs| runs.parse()).transpose()?;
    let runner = Runner { client, id: id.clone(), command: command.to_vec() };
    while left != Some(0) {
        if let Some(run) = runner.run_one().await? {
            told(&run);
            left = left.map(|left| left - 1);
        }
    }
    Ok(())
}

#[tokio::main]
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a program of its own")]
async fn main() -> Result<(), Fault> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    run(&arguments, |name| env::var(name).ok(), |run| println!("{run}")).await
}
