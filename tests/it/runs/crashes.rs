//! A worker that is killed at any time, again and again: no run is lost, none is started twice, and
//! everything that became of them is told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::Client;
use serde_json::json;
use tokio::task::JoinSet;

use super::asking::{ask_until_answered, depth, held, queue, with};
use super::events::{told, until_told};
use crate::harness::until_some;
use crate::harness::worker::Worker;
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Stage};
use crate::through_servers::story::assignment;

on_both_databases!(killed_again_and_again_it_loses_no_run_and_starts_none_twice);

const RUNNERS: usize = 6;
const RUNS: u32 = 240;
const KILLS: u32 = 6;
/// Short, for each run that is left alone is waited for.
const LEASE_SECONDS: u32 = 2;
/// What a worker that was killed owes is never answered. Every other runner asks again before the lease is
/// over that it is about, the others after it. A claim waits for a second by itself.
const CLAIMED_WITHIN: Duration = Duration::from_millis(1_300);
const ANSWERED_WITHIN: [Duration; 2] = [Duration::from_millis(400), Duration::from_millis(2_300)];

/// What one runner knows of a run that it started.
#[derive(Debug, Default)]
struct Known {
    starts: u32,
    ended: Option<String>,
}

/// A runner that now and then does not say how it goes on; what it knows of its runs.
async fn run(client: Client, me: usize, over: Arc<AtomicBool>) -> BTreeMap<String, Known> {
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    let mut nth = 0_u128;
    let within = ANSWERED_WITHIN[me % 2];
    while !over.load(Ordering::SeqCst) {
        nth += 1;
        let claim_id = uuid::Uuid::from_u128((me as u128 + 1) << 64 | nth);
        let claim = json!({
            "runner_id": format!("r{me}"), "claim_id": claim_id, "runs_max": 2,
            "wait_seconds": 1, "lease_seconds": LEASE_SECONDS,
        });
        let runs = ask_until_answered(&client, "claim", &claim, CLAIMED_WITHIN).await.unwrap();
        for run in runs["runs"].as_array().unwrap() {
            let id = run["run_id"].as_str().unwrap().to_owned();
            // Some are never started, and go back.
            if nth % 7 == 3 {
                continue;
            }
            let start = with(held(run), json!({ "lease_seconds": LEASE_SECONDS }));
            if ask_until_answered(&client, "start", &start, within).await.is_err() {
                continue;
            }
            let entry = known.entry(id).or_default();
            entry.starts += 1;
            // Some are started and never heard of again: they fail.
            if nth % 11 == 5 {
                continue;
            }
            let end = with(held(run), json!({ "status": "succeeded" }));
            if ask_until_answered(&client, "finish", &end, within).await.is_ok() {
                entry.ended = Some("succeeded".to_owned());
            }
        }
    }
    known
}

/// Kills the worker each time that some more runs have ended, whatever it is at.
async fn kill_again_and_again(stage: &Stage) -> Worker {
    let ended = "SELECT count(*) FROM runs WHERE status NOT IN ('queued', 'claimed', 'running')";
    let mut worker = Some(start(stage).await);
    for kill in 1..=KILLS {
        let least = i64::from(RUNS * kill / (KILLS + 2));
        stage.until_number(ended, least).await;
        worker.take().expect("one runs").kill();
        worker = Some(start(stage).await);
    }
    worker.expect("one runs")
}

async fn start(stage: &Stage) -> Worker {
    stage.worker_with(&[("WAKEGATE_QUEUE_KEEPER_INTERVAL_MS", "20")]).await
}

async fn killed_again_and_again_it_loses_no_run_and_starts_none_twice(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    for nth in 0..RUNS / 2 {
        queue(&stage.outside, u128::from(nth) + 1, &format!("o{}", nth % 5)).await;
    }
    // The other half is admitted meanwhile.
    for nth in 0..RUNS / 2 {
        stage.publish(&assignment(&format!("t{nth}"), "a1", 1)).await;
    }
    let over = Arc::new(AtomicBool::new(false));
    let mut runners = JoinSet::new();
    for me in 0..RUNNERS {
        runners.spawn(run(stage.nats.client().await, me, Arc::clone(&over)));
    }
    let worker = kill_again_and_again(&stage).await;
    let left = async || {
        let all = stage.outside.run_count().await == i64::from(RUNS);
        (all && depth(&stage.outside).await == (0, 0)).then_some(())
    };
    until_some(left, || worker.told("not all of them ended")).await;
    over.store(true, Ordering::SeqCst);
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    for of_one in runners.join_all().await {
        for (id, one) in of_one {
            let all = known.entry(id).or_default();
            all.starts += one.starts;
            all.ended = all.ended.take().or(one.ended);
        }
    }

    until_told(&stage).await;
    let rows = stage.outside.runs().await;
    assert_eq!(rows.len(), RUNS as usize, "each wake became one run");
    let mut events: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut seen = std::collections::BTreeSet::new();
    for told in told(&stage).await {
        // The stream drops what it has had.
        assert!(seen.insert(told.message_id.clone()), "{told:?} twice");
        let event = told.event["event"].as_str().unwrap().to_owned();
        events.entry(told.event["run_id"].as_str().unwrap().to_owned()).or_default().push(event);
    }
    for row in &rows {
        let known = known.remove(&row.id).unwrap_or_default();
        let events = events.remove(&row.id).unwrap_or_default();
        assert!(known.starts <= 1, "{} was started {} times: {events:?}", row.id, known.starts);
        assert!(["succeeded", "failed"].contains(&row.status.as_str()), "{row:?}");
        if let Some(ended) = &known.ended {
            assert_eq!(&row.status, ended, "what a runner was told is what is kept");
        }
        let count = |event: &str| events.iter().filter(|one| *one == event).count();
        assert_eq!(count("started"), 1, "{events:?}");
        assert_eq!(count(&row.status), 1, "{events:?}");
        assert_eq!(count("claimed"), count("returned") + 1, "counts add up: {events:?}");
    }
    assert!(events.is_empty(), "events of no run: {events:?}");
}
