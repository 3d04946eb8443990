//! What is over is ended once, by however many keepers, at whatever the clock says.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use wakegate::queue::keepers::{Kept, keep};
use wakegate::store::StoreOptions;
use wakegate::store::postgres::PostgresStore;
use wakegate::store::queue::{ClaimRequest, ClaimedRun, Held, StartAnswer};
use wakegate::store::runners::RunnerStore;
use wakegate::store::sqlite::SqliteStore;
use wakegate::wake::{RunnerId, UtcMicros};

use super::asking::{ask, claim_one, depth, held, queue, refusal, status, until_status, worker};
use super::events::{told, until_told};
use crate::harness::outside::Outside;
use crate::harness::world::T0;
use crate::harness::{postgres, sqlite};
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Stage};

on_both_databases!(
    a_runner_that_is_lost_fails_its_run_which_nobody_runs_again,
    what_waited_for_too_long_expires_once_and_is_never_started,
    any_number_of_keepers_end_each_run_once,
);

async fn a_runner_that_is_lost_fails_its_run_which_nobody_runs_again(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let (worker, client) = worker(&stage, &[]).await;
    let id = queue(&stage.outside, 1, "acme").await;
    let run = claim_one(&client).await;
    let mut start = held(&run);
    start["lease_seconds"] = json!(1);
    ask(&client, "start", start).await.unwrap();
    // The lease never shortens: that of the claim is an hour.
    let sql = match stage.outside {
        Outside::Sqlite(_) => "UPDATE runs SET lease_expires_at = 1",
        Outside::Postgres(_) => "UPDATE runs SET lease_expires_at = now()",
    };
    stage.outside.execute(sql).await;
    until_status(&stage.outside, &id, "failed").await;
    assert_eq!(refusal(&client, "heartbeat", held(&run)).await, "already_ended");
    let why = "SELECT count(*) FROM runs WHERE ended_reason = 'lease_lost'";
    assert_eq!(stage.outside.number(why).await, 1);
    assert_eq!(depth(&stage.outside).await, (0, 0));
    let moved = worker.moved(&["wakegate_runs_overdue_total"]).await;
    assert_eq!(moved.len(), 1, "{moved:?}");
    assert_eq!(moved["wakegate_runs_overdue_total{what=\"lease\"}"].to_string(), "1");
}

async fn what_waited_for_too_long_expires_once_and_is_never_started(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    // Nobody looks for what is overdue: the claim does.
    let (_worker, client) = worker(&stage, &[("WAKEGATE_QUEUE_KEEPER_INTERVAL_MS", "60000")]).await;
    let late = queue(&stage.outside, 1, "acme").await;
    let sql = match stage.outside {
        Outside::Sqlite(_) => "UPDATE runs SET expires_at = 1",
        Outside::Postgres(_) => "UPDATE runs SET expires_at = now()",
    };
    stage.outside.execute(sql).await;
    let good = queue(&stage.outside, 2, "acme").await;
    assert_eq!(claim_one(&client).await["run_id"], good.as_str());
    assert_eq!(status(&stage.outside, &late).await, "expired");
    until_told(&stage).await;
    let expired = told(&stage).await;
    let expired = expired.iter().filter(|told| told.event["event"] == "expired");
    assert_eq!(expired.count(), 1, "once, with an event");
}

const RUNS: u32 = 30;
const SECOND: Duration = Duration::from_secs(1);

/// Claims everything, with leases that end one after the other.
async fn claim_all<S: RunnerStore>(store: &S, now: UtcMicros) -> Vec<ClaimedRun> {
    let mut runs = Vec::new();
    for nth in 0..RUNS {
        let request = ClaimRequest {
            claim_id: uuid::Uuid::from_u128(u128::from(nth) + 1),
            runner: RunnerId::parse("r").unwrap(),
            runs_max: 1,
            organizations: Vec::new(),
            lease_until: now + SECOND * (nth + 1),
            now,
            platform_active_max: u32::MAX,
            organization_active_max: u32::MAX,
        };
        runs.extend(store.claim(&request).await.unwrap());
    }
    runs
}

/// Keeps with several keepers at once; what all of them did.
async fn keep_at_once<S: RunnerStore>(store: &S, now: UtcMicros) -> Kept {
    let mut keepers = JoinSet::new();
    for _ in 0..4 {
        let store = store.clone();
        keepers.spawn(async move { keep(&store, now, SECOND * 60).await });
    }
    let mut all = Kept::default();
    for (kept, done) in keepers.join_all().await {
        done.unwrap();
        all.expired += kept.expired;
        all.returned += kept.returned;
        all.lost += kept.lost;
        all.stopped += kept.stopped;
        all.unconfirmed += kept.unconfirmed;
    }
    all
}

async fn keeping<S: RunnerStore>(store: S, outside: &Outside) {
    for id in 0..u128::from(RUNS) {
        queue(outside, id + 1, &format!("o{}", id % 3)).await;
    }
    let start = UtcMicros::from_micros(T0);
    let runs = claim_all(&store, start).await;
    assert_eq!(runs.len(), RUNS as usize);
    // Every other one is started, with the lease that it has.
    for run in runs.iter().step_by(2) {
        let held = Held { run_id: run.run_id, fencing_token: run.fencing_token };
        let started = store.start(&held, run.lease_expires_at, start).await.unwrap();
        assert!(matches!(started, StartAnswer::Started { .. }), "{started:?}");
    }
    assert_eq!(keep_at_once(&store, start).await, Kept::default(), "no lease is over");
    let half = start + SECOND * (RUNS / 2);
    let kept = keep_at_once(&store, half).await;
    assert_eq!((kept.lost, kept.returned), (8, 7), "{kept:?}");
    assert_eq!(keep_at_once(&store, half).await, Kept::default(), "a second look finds nothing");
    // A stop ends what is under way: asked for once, and after the grace all the same.
    outside
        .execute("INSERT INTO pauses (id, scope, mode) VALUES ('p', 'platform', 'stop_now')")
        .await;
    let before = start + SECOND * (RUNS / 2);
    let kept = keep_at_once(&store, before).await;
    assert_eq!((kept.stopped, kept.unconfirmed), (15, 0), "{kept:?}");
    let end = before + SECOND * 60;
    let kept = keep_at_once(&store, end).await;
    // Leases are over by then too, and each run is ended by one of the two.
    assert_eq!(kept.returned + kept.lost + kept.unconfirmed, 15, "{kept:?}");
    assert_eq!(depth(outside).await, (7, 0), "those that went back wait");
    for (event, count) in [("returned", 7), ("cancel_requested", 15)] {
        let sql = format!("SELECT count(*) FROM run_events WHERE event = '{event}'");
        assert_eq!(outside.number(&sql).await, count, "{event}");
    }
}

async fn any_number_of_keepers_end_each_run_once(dialect: Dialect) {
    let options = StoreOptions { connections_max: 8, ..StoreOptions::default() };
    match dialect {
        Dialect::Postgres => {
            let database = postgres::database().await;
            let store = PostgresStore::connect(&database.url(), &options).unwrap();
            keeping(store, &Outside::Postgres(database.pool())).await;
        }
        Dialect::Sqlite => {
            let (_directory, url) = sqlite::database().await;
            let store = SqliteStore::connect(&url, &options).unwrap();
            let outside = Outside::Sqlite(sqlx::SqlitePool::connect(&url).await.unwrap());
            keeping(store, &outside).await;
        }
    }
}
