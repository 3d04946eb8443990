//! A lane moves from one worker to another: it is decided in stream order all the same, and the
//! allowance is exact.

use std::time::Duration;

use serde_json::{Value, json};

use super::on_both_databases;
use super::stage::{Asked, Dialect, Setting, Stage};
use super::stall::Stall;
use super::story::{assignment, by_agent};
use crate::harness::worker::Worker;
use crate::harness::world::brief;

on_both_databases!(
    killed_amid_a_batch_the_owner_leaves_the_next_one_exactly_the_allowance,
    frozen_amid_a_batch_and_thawed_after_the_take_over_the_owner_commits_nothing,
);

/// Four wakes a batch, so that a lane holds two batches and the stream has more.
const SMALL_BATCHES: Setting = Setting {
    partitions: 1,
    batch_wakes_max: 4,
    ack_wait: Duration::from_secs(2),
    pin_timeout: Duration::from_secs(2),
};

/// A worker that owns the lane and has settled some of it, and one that stands by.
async fn two_workers(stage: &Stage) -> [Worker; 2] {
    let owner = stage.worker().await;
    for generation in 0..3 {
        stage.publish_for_outcome(&assignment("before", "a1", generation)).await;
    }
    stage.settled().await;
    let standby = stage.worker().await;
    [owner, standby]
}

async fn assigned(stage: &Stage, agents: std::ops::Range<u32>) -> Vec<Asked> {
    let mut asked = Vec::new();
    for agent in agents {
        asked.push(stage.ask(&by_agent("contended", &format!("x{agent}"))).await);
    }
    asked
}

fn holds(readyz: &Value) -> bool {
    readyz["components"]["lane-0"]["state"] == "waiting"
}

/// The first five by stream sequence are admitted, and nothing else.
async fn exactly_five(stage: &Stage, asked: &[Asked]) {
    let mut sequence = 0;
    for (nth, asked) in asked.iter().enumerate() {
        let record = stage.outcome(asked).await;
        let expected = if nth < 5 { "queued" } else { "refused:allowance_exhausted" };
        assert_eq!(brief(&record), expected, "the {nth}th by stream sequence: {record}");
        assert!(asked.sequence > sequence);
        sequence = asked.sequence;
        if nth >= 5 {
            assert_eq!(record["observed_count"], 5);
        }
    }
    stage.settled().await;
    let runs = stage.outside.runs().await;
    let agents: Vec<&str> = runs
        .iter()
        .filter(|run| run.task_id.as_deref() == Some("contended"))
        .map(|run| run.agent_profile_id.as_str())
        .collect();
    assert_eq!(agents, ["x0", "x1", "x2", "x3", "x4"]);
    let refused = "SELECT count(*) FROM refused_wakes WHERE reason = 'allowance_exhausted'";
    assert_eq!(stage.outside.number(refused).await, i64::try_from(asked.len() - 5).unwrap());
    let audited = stage.audited().await;
    assert_eq!(audited.len(), asked.len() - 5, "one audit event for each refusal");
}

async fn killed_amid_a_batch_the_owner_leaves_the_next_one_exactly_the_allowance(dialect: Dialect) {
    let stage = Stage::with(dialect, SMALL_BATCHES).await;
    let [owner, standby] = two_workers(&stage).await;
    let mut asked = assigned(&stage, 0..2).await;
    stage.settled().await;

    let stall = Stall::records(&stage).await;
    let amid = assigned(&stage, 2..6).await;
    owner.until_readyz("the owner does not hold", |answer| holds(&answer.json())).await;
    owner.kill();
    let later = assigned(&stage, 6..12).await;
    stall.release().await;

    asked.extend(amid);
    asked.extend(later);
    exactly_five(&stage, &asked).await;
    drop(standby);
}

async fn frozen_amid_a_batch_and_thawed_after_the_take_over_the_owner_commits_nothing(
    dialect: Dialect,
) {
    let stage = Stage::with(dialect, SMALL_BATCHES).await;
    let [mut owner, standby] = two_workers(&stage).await;
    let stall = Stall::records(&stage).await;
    let mut asked = assigned(&stage, 0..4).await;
    if dialect == Dialect::Postgres {
        // Within its transaction, behind the fence: it freezes with that row locked.
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                     AND application_name = 'wakegate' AND datname = current_database()";
        stage.until_number(waits, 1).await;
    } else {
        owner.until_readyz("the owner does not hold", |answer| holds(&answer.json())).await;
    }
    owner.signal("STOP");
    asked.extend(assigned(&stage, 4..9).await);
    stall.release().await;

    exactly_five(&stage, &asked).await;
    let rows = stage.rows().await;
    owner.signal("CONT");
    owner
        .until_readyz("the thawed owner still says that it owns the lane", |answer| {
            answer.json()["components"]["lane-0"]["state"] == "standby"
        })
        .await;
    assert!(owner.runs(), "{}", owner.log());
    assert_eq!(stage.rows().await, rows, "{}", owner.told("the thawed owner has written"));

    // It is of use again: the lane goes back to it.
    standby.kill();
    let record = stage.publish_for_outcome(&assignment("after", "a1", 1)).await;
    assert_eq!(record["outcome"], json!("queued"), "{}", owner.log());
}
