//! What a worker holds does not depend on what waits for it.

use async_nats::jetstream::Context;
use serde_json::json;

use crate::harness::until_some;
use crate::harness::worker::Worker;
use crate::through_servers::stage::{Dialect, Setting, Stage};
use crate::through_servers::stall::Stall;

/// The large backlog, unless `WAKEGATE_BACKLOG_WAKES` names another.
const BACKLOG_WAKES: usize = 100_000;
const SMALL_BACKLOG_WAKES: usize = 2_000;
/// Decided before the stall.
const FIRST_WAKES: usize = 20;
/// Decided after the stall, so that memory is looked at while batches go through too.
const DECIDED: i64 = 1_000;
/// What the two peaks may differ by: allocators keep pages, and lanes are not in step.
const DIFFERENCE_BYTES_MAX: u64 = 24 << 20;
const SETTING_BATCH: u32 = 50;
const PARTITIONS: u32 = 2;

fn backlog() -> usize {
    let named = std::env::vars().find(|(name, _)| name == "WAKEGATE_BACKLOG_WAKES");
    named.map_or(BACKLOG_WAKES, |(_, wakes)| wakes.parse().expect("a number of wakes"))
}

async fn publish(context: &Context, wakes: usize) {
    let mut sent = std::collections::VecDeque::new();
    for nth in 0..wakes {
        let task = format!("t{nth}");
        let body = json!({
            "type": "task.mutated.v1", "organization_id": "acme", "task_id": task,
            "new_assignee_agent_profile_id": "a1", "assignment_generation": 1,
        });
        let subject = format!("wakes.task_mutation.acme.{task}");
        sent.push_back(context.publish(subject, body.to_string().into()).await.unwrap());
        if sent.len() > 1_000 {
            sent.pop_front().expect("it was just looked at").await.unwrap();
        }
    }
    for ack in sent {
        ack.await.unwrap();
    }
}

/// The most memory that the process ever had, in bytes.
fn peak(worker: &Worker) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", worker.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("Linux says so");
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1_024
}

/// Peak memory of a worker that met this backlog with a database that recorded nothing, and then
/// worked part of it off.
async fn peak_with(dialect: Dialect, wakes: usize) -> u64 {
    let setting =
        Setting { partitions: PARTITIONS, batch_wakes_max: SETTING_BATCH, ..Setting::default() };
    let stage = Stage::with(dialect, setting).await;
    // The worker's look at the stream, when it starts, needs the database.
    let worker = stage.worker_starting().await;
    publish(&stage.context, FIRST_WAKES).await;
    stage.settled().await;
    let stall = Stall::records(&stage).await;
    publish(&stage.context, wakes).await;
    let mut stream = stage.context.get_stream("WAKES").await.unwrap();
    assert_eq!(stream.info().await.unwrap().state.messages, (FIRST_WAKES + wakes) as u64);
    for lane in 0..PARTITIONS {
        // As much as the consumer's bound lets be delivered, and the rest left at the server.
        let all = 2 * SETTING_BATCH as usize;
        stage.until_lane(lane, "the lane never filled", |info| info.num_ack_pending == all).await;
        assert!(stage.lane(lane).await.num_pending > 0);
    }
    stall.release().await;
    let decided = "SELECT count(*) FROM runs";
    let ask = async || (stage.outside.number(decided).await >= DECIDED).then_some(());
    until_some(ask, || worker.told("the backlog is not worked off")).await;
    peak(&worker)
}

async fn a_backlog_does_not_become_memory(dialect: Dialect) {
    let small = peak_with(dialect, SMALL_BACKLOG_WAKES).await;
    let large = peak_with(dialect, backlog()).await;
    assert!(
        large <= small + DIFFERENCE_BYTES_MAX,
        "{SMALL_BACKLOG_WAKES} wakes: {small} bytes; {} wakes: {large} bytes",
        backlog()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_does_not_become_memory_on_sqlite() {
    a_backlog_does_not_become_memory(Dialect::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_does_not_become_memory_on_postgres() {
    a_backlog_does_not_become_memory(Dialect::Postgres).await;
}
