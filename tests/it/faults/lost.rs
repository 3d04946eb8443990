//! Wakes that the stream removed before they were decided: they cannot be had back, and they are
//! counted, audited and shown.

use super::accounts::add_up;
use super::load::Load;
use crate::harness::until_some;
use crate::harness::worker::Worker;
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Setting, Stage};
use crate::through_servers::stall::Stall;
use crate::through_servers::story::assignment;

on_both_databases!(
    removed_while_nobody_works_wakes_are_reported_once,
    removed_while_the_lane_holds_wakes_are_reported_and_what_is_in_work_is_decided,
);

const LOST: &str = "wakegate_wakes_lost_total";

async fn lost(worker: &Worker) -> f64 {
    worker.scrape().await[LOST]
}

async fn until_lost(worker: &Worker, wakes: u32) {
    let wakes = f64::from(wakes);
    let look = async || (lost(worker).await >= wakes).then_some(());
    until_some(look, || worker.told(&format!("never {wakes} lost"))).await;
    let exactly = lost(worker).await;
    assert!((exactly - wakes).abs() < f64::EPSILON, "{exactly}");
}

/// `/readyz` names the loss, and the worker is ready: there is nothing that it could do.
async fn shown(worker: &Worker, wakes: u32) {
    let says = format!("{wakes} wakes were removed from the stream undecided");
    let named = |answer: &crate::harness::http::Answer| {
        answer.status == 200
            && answer.json()["components"]["streams"]["reason"]
                .as_str()
                .is_some_and(|reason| reason.starts_with(&says))
    };
    worker.until_readyz("the loss is not named", named).await;
    worker.until_logged("wakes were removed from the stream undecided").await;
}

/// In order, so that nobody waits for its pin to time out.
async fn end(worker: &mut Worker) {
    worker.signal("TERM");
    assert_eq!(worker.ended().await.code(), Some(0), "{}", worker.log());
}

async fn purge_up_to(stage: &Stage, sequence: u64) {
    let wakes = stage.context.get_stream("WAKES").await.unwrap();
    wakes.purge().sequence(sequence).await.unwrap();
}

async fn removed_while_nobody_works_wakes_are_reported_once(dialect: Dialect) {
    let stage = Stage::with(dialect, Setting { partitions: 3, ..Setting::default() }).await;
    let mut load = Load::new(rand::random());
    load.publish(&stage, 30).await;
    stage.catch_up();
    load.publish(&stage, 30).await;
    // Of 31 to 60 go 31 to 40 from the front, and 50.
    purge_up_to(&stage, 41).await;
    stage.context.get_stream("WAKES").await.unwrap().delete_message(50).await.unwrap();

    let mut worker = stage.worker().await;
    until_lost(&worker, 11).await;
    shown(&worker, 11).await;
    stage.settled().await;
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.on_stream(), accounts.lost), (19, 11));
    end(&mut worker).await;

    // Neither the next worker nor one that finds nothing else finds it again.
    for _ in 0..2 {
        let mut worker = stage.worker().await;
        stage.publish_for_outcome(&load.event()).await;
        stage.settled().await;
        assert!(lost(&worker).await.abs() < f64::EPSILON, "{}", worker.log());
        end(&mut worker).await;
    }
    assert_eq!(add_up(&stage).await.lost, 11);

    // All there is, and nothing comes after it.
    load.publish(&stage, 5).await;
    purge_up_to(&stage, 68).await;
    let mut worker = stage.worker().await;
    until_lost(&worker, 5).await;
    end(&mut worker).await;
    let worker = stage.worker().await;
    stage.publish_for_outcome(&load.event()).await;
    assert!(lost(&worker).await.abs() < f64::EPSILON, "{}", worker.log());
    stage.settled().await;
    assert_eq!(add_up(&stage).await.lost, 16);
}

async fn removed_while_the_lane_holds_wakes_are_reported_and_what_is_in_work_is_decided(
    dialect: Dialect,
) {
    let stage = Stage::with(dialect, Setting { batch_wakes_max: 4, ..Setting::default() }).await;
    let mut worker = stage.worker().await;
    let mut load = Load::new(rand::random());
    load.publish(&stage, 10).await;
    stage.settled().await;
    let stall = Stall::records(&stage).await;
    // Each is to be a run, for what writes nothing is not stalled.
    for nth in 0..40 {
        stage.publish(&assignment("t1", &format!("stalled{nth}"), 1)).await;
    }
    // Two batches are in the worker's hands, and it has seen that the rest waits.
    let pending = "wakegate_lane_pending{lane=\"0\"}";
    let all_seen = async || (worker.scrape().await[pending] >= 40.0).then_some(());
    until_some(all_seen, || worker.told("it does not see what waits")).await;
    let info = stage.lane(0).await;
    let in_hand = u32::try_from(info.num_ack_pending).unwrap();
    assert!(in_hand <= 8 && info.num_pending == u64::from(40 - in_hand), "{info:?}");
    let wakes = stage.context.get_stream("WAKES").await.unwrap();
    wakes.delete_message(50).await.unwrap();
    wakes.purge().await.unwrap();
    stall.release().await;

    until_lost(&worker, 40 - in_hand).await;
    shown(&worker, 40 - in_hand).await;
    stage.settled().await;
    stage.publish_for_outcome(&load.event()).await;
    stage.settled().await;
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.on_stream(), accounts.lost), (1, u64::from(40 - in_hand)), "{accounts:?}");
    end(&mut worker).await;

    let worker = stage.worker().await;
    stage.publish_for_outcome(&load.event()).await;
    assert!(lost(&worker).await.abs() < f64::EPSILON, "the next worker knows");
}

#[tokio::test]
async fn removed_while_the_database_stays_away_wakes_are_reported_with_the_next_one() {
    let setting = Setting { batch_wakes_max: 4, ..Setting::default() };
    let stage = Stage::with(Dialect::Postgres, setting).await;
    let worker = stage.worker_with(&[("WAKEGATE_LANES_STORE_AWAY_GIVE_UP_MS", "1000")]).await;
    let mut load = Load::new(rand::random());
    load.publish(&stage, 10).await;
    stage.settled().await;
    stage.refuse_connections(true).await;
    load.publish(&stage, 30).await;
    let pending = "wakegate_lane_pending{lane=\"0\"}";
    let all_seen = async || (worker.scrape().await[pending] >= 30.0).then_some(());
    until_some(all_seen, || worker.told("it does not see what waits")).await;
    worker.until_logged("giving the lane up").await;
    stage.context.get_stream("WAKES").await.unwrap().purge().await.unwrap();
    load.publish(&stage, 1).await;
    stage.refuse_connections(false).await;

    until_lost(&worker, 30).await;
    stage.settled().await;
    worker.ready().await;
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.on_stream(), accounts.lost), (1, 30), "{accounts:?}");
}
