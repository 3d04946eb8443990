//! A lane changes hands for other reasons than a crash.

use serde_json::{Value, json};

use super::accounts::add_up;
use super::load::{Load, SMALL};
use crate::harness::proxy::{Manner, Proxy, port_of};
use crate::harness::worker::Worker;
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Setting, Stage};
use crate::through_servers::stall::Stall;
use crate::through_servers::story::assignment;

on_both_databases!(a_pin_moved_while_a_batch_is_in_work_decides_everything_once);

async fn unpin(stage: &Stage, lane: u32) {
    let subject = format!("CONSUMER.UNPIN.WAKES.lane-{lane}");
    let answer: Value = stage.context.request(subject, &json!({ "group": "lane" })).await.unwrap();
    assert!(answer.get("error").is_none(), "{answer}");
}

/// A worker that pulls every lane, whoever else does: a pin that is taken away may go to any.
async fn pulling(stage: &Stage) -> Worker {
    let mut command = stage.command(&["run"]);
    command.env("WAKEGATE_LANES_SPREAD", "off");
    let worker = Worker::spawn(command).await;
    worker.ready().await;
    worker
}

async fn a_pin_moved_while_a_batch_is_in_work_decides_everything_once(dialect: Dialect) {
    let stage = Stage::with(dialect, Setting { batch_wakes_max: 8, ..SMALL }).await;
    let workers = [pulling(&stage).await, pulling(&stage).await];
    let mut load = Load::new(rand::random());
    load.publish(&stage, 20).await;
    stage.settled().await;

    let stall = Stall::records(&stage).await;
    load.publish(&stage, 40).await;
    stage.until_lane(0, "nothing is in work", |info| info.num_ack_pending > 0).await;
    stage.until_lane(1, "nothing is in work", |info| info.num_ack_pending > 0).await;
    for lane in 0..2 {
        unpin(&stage, lane).await;
    }
    stall.release().await;
    // And again without a stall, wherever they are.
    for _ in 0..4 {
        load.publish(&stage, 20).await;
        for lane in 0..2 {
            unpin(&stage, lane).await;
        }
    }
    stage.settled().await;
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.on_stream(), accounts.gone, accounts.lost), (140, 0, 0));
    drop(workers);
}

#[tokio::test]
async fn a_worker_cut_off_from_its_database_only_leaves_its_lanes_to_a_standby() {
    let stage = Stage::with(Dialect::Postgres, Setting { batch_wakes_max: 8, ..SMALL }).await;
    let proxy = Proxy::before(port_of(&stage.database_url)).await;
    let mut command = stage.command(&["run"]);
    command
        .env("WAKEGATE_DATABASE_URL", proxy.url(&stage.database_url))
        .env("WAKEGATE_LANES_STORE_AWAY_GIVE_UP_MS", "1000");
    let cut_off = Worker::spawn(command).await;
    cut_off.ready().await;
    let mut load = Load::new(rand::random());
    load.publish(&stage, 20).await;
    stage.settled().await;
    let owned = cut_off.moved(&["wakegate_lane_owned"]).await;
    assert_eq!(owned.len(), 2, "it has both lanes: {owned:?}");

    let standby = stage.worker().await;
    proxy.set(Manner::Refuse);
    load.publish(&stage, 40).await;
    stage.settled().await;
    cut_off.until_logged("giving the lane up").await;
    standby.ready().await;
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.on_stream(), accounts.gone, accounts.lost), (60, 0, 0));

    // It is of use again.
    proxy.set(Manner::Forward);
    cut_off.ready().await;
    standby.kill();
    stage.publish_for_outcome(&assignment("after", "a1", 1)).await;
    stage.settled().await;
    assert_eq!(add_up(&stage).await.on_stream(), 61);
}
