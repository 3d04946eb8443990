//! The programs of `examples/runners`: each takes runs from a real worker, with a runner's permissions
//! or on either database, gives their payloads to a command, and ends them as the command ends.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::asking::{ask, depth, until_answering, until_status, worker};
use crate::harness::golden::repository;
use crate::harness::tools::python;
use crate::harness::{PATIENCE, until_some};
use crate::security::guarded::{Guarded, RUNNER, TASK_MUTATION};
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Stage};
use crate::through_servers::story::assignment;

// In this process: a cargo within a cargo builds half of everything again, for other variables.
#[path = "../../../examples/runners/rust/runner.rs"]
#[expect(dead_code, reason = "its `main` is called by nobody here")]
mod rust;

on_both_databases!(
    runners_of_both_languages_see_runs_through,
    a_runner_ends_what_is_cancelled_and_says_so,
);

/// Writes down what it reads; fails where that says so.
const COMMAND: [&str; 3] = [
    "sh",
    "-c",
    r#"payload=$(cat); printf '%s\n' "$payload" >> "$0"; case $payload in *t-bad*) exit 3;; esac"#,
];

/// A Python runner, ended with the test.
struct Python(Child);

impl Python {
    fn start(id: &str, settings: &[(&str, String)], command: &[&str]) -> Self {
        let mut program: Command = python();
        program.arg(repository().join("examples/runners/python/runner.py")).arg(id).args(command);
        program.envs(settings.iter().map(|(name, value)| (*name, value.as_str())));
        Self(program.stdout(Stdio::piped()).spawn().expect("python3 starts"))
    }

    /// What it said once it has ended by itself.
    fn ended(mut self) -> Vec<Value> {
        let output = self.0.stdout.take().expect("it is piped");
        let said = std::io::read_to_string(output).unwrap();
        assert!(self.0.wait().unwrap().success(), "{said}");
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the Rust program in this process; what it said.
async fn rust_runner(
    id: &str,
    settings: Vec<(&'static str, String)>,
    command: Vec<String>,
) -> Vec<Value> {
    let arguments: Vec<String> = [vec![id.to_owned()], command].concat();
    let setting = |name: &str| {
        settings.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    };
    let mut said = Vec::new();
    let ran = rust::run(&arguments, setting, |run| said.push(run.clone()));
    let ran = tokio::time::timeout(PATIENCE, ran).await;
    ran.expect("it ends").unwrap_or_else(|fault| panic!("{fault}"));
    said
}

async fn runners_of_both_languages_see_runs_through(dialect: Dialect) {
    const RUNS: usize = 5;
    let stage = Stage::set(dialect).await;
    let (_worker, client) = worker(&stage, &[]).await;
    let read = stage.directory.path().join("read");
    let command = [COMMAND[0], COMMAND[1], COMMAND[2], read.to_str().unwrap()];
    let settings = [("NATS_URL", stage.nats.url()), ("RUNS", RUNS.to_string())];
    let python = Python::start("snake", &settings, &command);
    let mut runners = JoinSet::new();
    let owned = command.map(str::to_owned).to_vec();
    runners.spawn(rust_runner("crab", settings.to_vec(), owned));
    for nth in 0..2 * RUNS {
        let task = if nth % 5 == 4 { format!("t-bad-{nth}") } else { format!("t-{nth}") };
        stage.publish(&assignment(&task, "a1", 1)).await;
    }
    let mut said = runners.join_next().await.unwrap().unwrap();
    said.extend(tokio::task::spawn_blocking(|| python.ended()).await.unwrap());
    assert_eq!(said.len(), 2 * RUNS);
    let mut statuses: BTreeMap<&str, usize> = BTreeMap::new();
    for run in &said {
        *statuses.entry(run["status"].as_str().unwrap()).or_default() += 1;
        until_status(
            &stage.outside,
            run["run_id"].as_str().unwrap(),
            run["status"].as_str().unwrap(),
        )
        .await;
    }
    assert_eq!(statuses, BTreeMap::from([("failed", 2), ("succeeded", 2 * RUNS - 2)]));
    let reasons = "SELECT count(*) FROM runs WHERE ended_reason LIKE 'exit status: 3'";
    assert_eq!(stage.outside.number(reasons).await, 2);
    // Each payload was read once, by whichever.
    let mut payloads: Vec<String> =
        std::fs::read_to_string(&read).unwrap().lines().map(str::to_owned).collect();
    let mut expected: Vec<String> =
        stage.outside.runs().await.into_iter().map(|run| run.payload).collect();
    payloads.sort();
    expected.sort();
    assert_eq!(payloads, expected);
    assert_eq!(depth(&stage.outside).await, (0, 0));
    drop(client);
}

async fn a_runner_ends_what_is_cancelled_and_says_so(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let (_worker, client) = worker(&stage, &[]).await;
    let forever = ["sh", "-c", "cat > /dev/null; exec tail -f /dev/null"];
    let settings = [("NATS_URL", stage.nats.url()), ("RUNS", "1".to_owned())];
    let python = Python::start("snake", &settings, &forever);
    let mut runners = JoinSet::new();
    runners.spawn(rust_runner("crab", settings.to_vec(), forever.map(str::to_owned).to_vec()));
    for task in ["t1", "t2"] {
        stage.publish(&assignment(task, "a1", 1)).await;
    }
    let running = "SELECT count(*) FROM runs WHERE status = 'running'";
    stage.until_number(running, 2).await;
    for run in stage.outside.runs().await {
        let cancel =
            json!({ "run_id": run.id, "scope": "platform", "actor": "ann", "reason": "enough" });
        assert_eq!(ask(&client, "cancel", cancel).await.unwrap()["status"], "cancelling");
    }
    let mut said = runners.join_next().await.unwrap().unwrap();
    said.extend(tokio::task::spawn_blocking(|| python.ended()).await.unwrap());
    assert_eq!(
        said.iter().map(|run| &run["status"]).collect::<Vec<_>>(),
        ["cancelled", "cancelled"]
    );
    let ended = "SELECT count(*) FROM runs WHERE status = 'cancelled'";
    assert_eq!(stage.outside.number(ended).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_programs_need_a_runners_permissions_and_no_others() {
    let guarded = Guarded::set().await;
    let worker = guarded.worker().await;
    let client = guarded.context(RUNNER).await.client();
    until_answering(&client).await;
    let settings = [
        ("NATS_URL", guarded.nats.url()),
        ("NATS_USER", RUNNER.user.to_owned()),
        ("NATS_PASSWORD", RUNNER.password()),
        ("NATS_INBOX_PREFIX", RUNNER.inbox_prefix.to_owned()),
        ("RUNS", "1".to_owned()),
    ];
    let python = Python::start("snake", &settings, &["true"]);
    let mut runners = JoinSet::new();
    runners.spawn(rust_runner("crab", settings.to_vec(), vec!["true".to_owned()]));
    for task in ["t1", "t2"] {
        let body = assignment(task, "a1", 1).body;
        guarded.publish(TASK_MUTATION, "task_mutation", &String::from_utf8_lossy(&body));
    }
    let mut said = runners.join_next().await.unwrap().unwrap();
    said.extend(tokio::task::spawn_blocking(|| python.ended()).await.unwrap());
    assert_eq!(said.len(), 2, "{}", worker.told("one each"));
    assert!(said.iter().all(|run| run["status"] == "succeeded"), "{said:?}");
    let none = async || (depth(&guarded.outside).await == (0, 0)).then_some(());
    until_some(none, || "something is left".to_owned()).await;
}
