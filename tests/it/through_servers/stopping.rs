//! A worker ends: in order, under load, or because everything is decided.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::Value;

use super::on_both_databases;
use super::stage::{Dialect, Setting, Stage};
use super::stall::Stall;
use super::story::{assignment, by_agent};
use crate::harness::PATIENCE;

on_both_databases!(
    a_worker_that_ends_under_load_gives_its_lanes_to_another_and_nothing_is_lost,
    a_worker_that_is_to_catch_up_ends_once_everything_is_decided,
);

/// Long enough that nobody gets a lane by waiting for its pin to time out; what was on its way to
/// the worker that ends comes again after `ack_wait`.
const UNHURRIED: Setting = Setting {
    partitions: 2,
    batch_wakes_max: 20,
    ack_wait: Duration::from_secs(15),
    pin_timeout: Duration::from_mins(2),
};

async fn a_worker_that_ends_under_load_gives_its_lanes_to_another_and_nothing_is_lost(
    dialect: Dialect,
) {
    let stage = Stage::with(dialect, UNHURRIED).await;
    let mut ending = stage.worker().await;
    for task in ["t0", "t1", "t2", "t3"] {
        stage.publish_for_outcome(&assignment(task, "first", 0)).await;
    }
    let other = stage.worker().await;
    let mut unpinned = stage
        .context
        .client()
        .subscribe("$JS.EVENT.ADVISORY.CONSUMER.UNPINNED.WAKES.*")
        .await
        .unwrap();

    let mut keys = BTreeSet::new();
    let mut published = 4_i64;
    let mut stall = None;
    for nth in 0..300_u64 {
        // Each key three times, each task in the hands of a person.
        let (task, agent) = (format!("t{}", nth % 7), format!("a{}", nth % 5));
        stage.publish(&assignment(&task, &agent, nth / 105)).await;
        keys.insert((task, agent, nth / 105));
        published += 1;
        if nth == 100 {
            stall = Some(Stall::records(&stage).await);
        }
        if nth == 120 {
            ending.signal("TERM");
        }
    }
    let readyz =
        ending.until_readyz("the ending worker is ready", |answer| answer.status == 503).await;
    assert_eq!(readyz["shutting_down"], true, "{readyz}");
    stall.expect("it was taken").release().await;
    assert_eq!(ending.ended().await.code(), Some(0), "{}", ending.log());

    let mut lanes = BTreeSet::new();
    while lanes.len() < 2 {
        let advisory = tokio::time::timeout(PATIENCE, unpinned.next()).await;
        let advisory = advisory.expect("both lanes are unpinned").unwrap();
        let advisory: Value = serde_json::from_slice(&advisory.payload).unwrap();
        assert_eq!(advisory["reason"], "admin", "given back, not timed out: {advisory}");
        lanes.insert(advisory["consumer"].as_str().unwrap().to_owned());
    }
    stage.settled().await;
    let count =
        async |table: &str| stage.outside.number(&format!("SELECT count(*) FROM {table}")).await;
    // The lanes' first four keys, and those above; every key is one run or one merge.
    let decided = count("runs").await + count("merged_wakes").await;
    assert_eq!(decided, i64::try_from(keys.len()).unwrap() + 4, "{}", other.log());
    assert_eq!(count("wake_keys").await, decided);
    assert_eq!(count("refused_wakes").await, 0);
    stage.deliver_everything_again().await;
    stage.catch_up();
    assert_eq!(count("runs").await + count("merged_wakes").await, decided);
    assert!(published > decided, "some were duplicates");
}

async fn a_worker_that_is_to_catch_up_ends_once_everything_is_decided(dialect: Dialect) {
    let setting = Setting { partitions: 3, batch_wakes_max: 4, ..Setting::default() };
    let stage = Stage::with(dialect, setting).await;
    let empty = stage.catch_up();
    assert!(empty.stderr.contains("caught up"), "{}", empty.stderr);

    for nth in 0..60 {
        stage.publish(&by_agent(&format!("t{}", nth % 10), &format!("a{nth}"))).await;
    }
    stage.catch_up();
    for lane in 0..3 {
        let info = stage.lane(lane).await;
        assert_eq!((info.num_pending, info.num_ack_pending), (0, 0), "lane {lane}");
    }
    assert_eq!(stage.outside.run_count().await, 50, "five of six of each of ten tasks");
    assert_eq!(stage.audited().await.len(), 10);
}
