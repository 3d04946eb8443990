//! A server that is away makes a lane hold: nothing is acknowledged, nothing is delivered again, and
//! everything is decided once it is back.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::on_both_databases;
use super::stage::{Asked, Dialect, Stage};
use super::stall::Stall;
use super::story::{assignment, by_agent};
use crate::harness::PATIENCE;
use crate::harness::worker::Worker;

on_both_databases!(
    a_database_that_only_reads_makes_the_lane_hold_and_then_go_on,
    the_audit_stream_deleted_holds_refusals_until_it_is_applied_again,
);

const ATTEMPTS: &str = "wakegate_batch_seconds_count{stage=\"facts\"}";
/// Attempts of a hold after which more than an `ack_wait` has passed, at 200 ms each at most and
/// 100 ms at least.
const ATTEMPTS_OF_A_LONG_HOLD: f64 = 40.0;

/// Waits until a lane has held for longer than an unattended delivery would have lasted.
async fn held_for_long(stage: &Stage, worker: &Worker, wakes: usize) {
    let readyz = worker.until_readyz("the lane does not hold", |answer| answer.status == 503).await;
    assert_eq!(readyz["components"]["lane-0"]["state"], "waiting", "{readyz}");
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let series = worker.scrape().await;
        let info = stage.lane(0).await;
        assert_eq!(info.num_ack_pending, wakes, "nothing is acknowledged");
        assert_eq!(info.num_redelivered, 0, "and nothing delivered again");
        if series[ATTEMPTS] >= ATTEMPTS_OF_A_LONG_HOLD {
            assert!(series.iter().any(|(name, value)| {
                name.starts_with("wakegate_lane_holds_total{cause=\"store\"") && *value > 0.0
            }));
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{}", worker.told("no further attempt"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A worker that has decided one wake already, and so is amid its work.
async fn working(stage: &Stage, command: Command) -> Worker {
    let worker = Worker::spawn(command).await;
    let record = stage.publish_for_outcome(&assignment("before", "a0", 1)).await;
    assert_eq!(record["outcome"], "queued", "{}", worker.log());
    stage.settled().await;
    worker.ready().await;
    worker
}

/// Six assignments by an agent, of which five fit.
async fn six(stage: &Stage) -> Vec<Asked> {
    let mut asked = Vec::new();
    for nth in 0..6 {
        asked.push(stage.ask(&by_agent("t1", &format!("a{nth}"))).await);
    }
    asked
}

async fn decided_once(stage: &Stage, worker: &Worker, asked: &[Asked]) {
    for (nth, asked) in asked.iter().enumerate() {
        let record = stage.outcome(asked).await;
        let expected = if nth < 5 { "queued" } else { "refused" };
        assert_eq!(record["outcome"], expected, "{}", worker.told(&record.to_string()));
    }
    stage.settled().await;
    worker.ready().await;
    assert_eq!(stage.outside.run_count().await, 1 + 5);
    assert_eq!(stage.audited().await.len(), 1);
    let series = worker.scrape().await;
    let total: f64 = series
        .iter()
        .filter(|(name, _)| name.starts_with("wakegate_wakes_total"))
        .map(|(_, value)| value)
        .sum();
    assert!((total - 7.0).abs() < f64::EPSILON, "each counts once: {total}");
}

async fn a_database_that_only_reads_makes_the_lane_hold_and_then_go_on(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let worker = working(&stage, stage.command(&["run"])).await;
    let asked;
    if dialect == Dialect::Postgres {
        stage.read_only(true).await;
        asked = six(&stage).await;
        held_for_long(&stage, &worker, 6).await;
        stage.read_only(false).await;
    } else {
        // SQLite answers "busy" after its own wait, so that a few attempts are long.
        let stall = Stall::records(&stage).await;
        asked = six(&stage).await;
        let readyz =
            worker.until_readyz("the lane does not hold", |answer| answer.status == 503).await;
        assert_eq!(readyz["components"]["lane-0"]["state"], "waiting", "{readyz}");
        let info = stage.lane(0).await;
        assert_eq!((info.num_ack_pending, info.num_redelivered), (6, 0));
        stall.release().await;
    }
    decided_once(&stage, &worker, &asked).await;
}

#[tokio::test]
async fn postgres_away_for_a_while_costs_nothing_but_time() {
    let stage = Stage::set(Dialect::Postgres).await;
    let worker = working(&stage, stage.command(&["run"])).await;
    stage.refuse_connections(true).await;
    let asked = six(&stage).await;
    held_for_long(&stage, &worker, 6).await;
    let is_away = |answer: &crate::harness::http::Answer| {
        answer.json()["components"]["database"]["state"] == "waiting"
    };
    worker.until_readyz("the database is not named", is_away).await;
    stage.refuse_connections(false).await;
    decided_once(&stage, &worker, &asked).await;
}

#[tokio::test]
async fn a_full_disk_makes_the_lane_hold_and_then_go_on() {
    let stage = Stage::set(Dialect::Sqlite).await;
    let worker = working(&stage, without_file_size_signal(&stage.command(&["run"]))).await;
    // No file may grow, which is what a full disk is to a database.
    limit_files(&worker, "0");
    let asked = six(&stage).await;
    held_for_long(&stage, &worker, 6).await;
    limit_files(&worker, "unlimited");
    decided_once(&stage, &worker, &asked).await;
}

/// The same command with SIGXFSZ ignored: what exceeds the limit is refused, not punished.
fn without_file_size_signal(command: &Command) -> Command {
    let mut wrapped = Command::new("sh");
    wrapped.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]).arg(command.get_program());
    wrapped.args(command.get_args()).stdin(std::process::Stdio::null());
    wrapped.current_dir(command.get_current_dir().expect("it has one"));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped
}

fn limit_files(worker: &Worker, bytes: &str) {
    let limited = Command::new("prlimit")
        .args(["--pid", &worker.id().to_string(), &format!("--fsize={bytes}:unlimited")])
        .status();
    let limited = limited.expect("prlimit is missing: install util-linux");
    assert!(limited.success(), "prlimit --fsize={bytes}");
}

async fn the_audit_stream_deleted_holds_refusals_until_it_is_applied_again(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let worker = stage.worker().await;
    stage.outside.set_agent("acme", "stopped", "stopped").await;
    stage.context.delete_stream("WAKE_AUDIT").await.unwrap();
    let refused = stage.ask(&assignment("t1", "stopped", 1)).await;
    let readyz = worker.until_readyz("the lane does not hold", |answer| answer.status == 503).await;
    let reason: &Value = &readyz["components"]["lane-0"]["reason"];
    assert!(reason.as_str().unwrap().contains("run: wakegate streams apply"), "{reason}");
    assert_eq!(stage.lane(0).await.num_ack_pending, 1);
    let series = worker.scrape().await;
    assert!(series["wakegate_lane_holds_total{cause=\"audit\"}"] > 0.0);
    assert!(series["wakegate_audit_publish_failures_total"] > 0.0);

    stage.apply_streams();
    let record = stage.outcome(&refused).await;
    assert_eq!(record["reason"], "agent_stopped", "{}", worker.log());
    stage.settled().await;
    worker.ready().await;
    assert_eq!(stage.audited().await.len(), 1);
    let counted = worker.scrape().await["wakegate_refusals_total{reason=\"agent_stopped\"}"];
    assert!((counted - 1.0).abs() < f64::EPSILON, "{counted}");
}
