//! Who gets which lanes, without load and with a database that is away.

use super::fleet::{self, Load, event, handed_over, owned, until_heard, until_shared};
use crate::faults::accounts::add_up;
use crate::harness::proxy::{Manner, Proxy, port_of};
use crate::harness::until_some;
use crate::harness::worker::Worker;

/// A replica that pulls lanes that are another one's would have had some of these first wakes.
#[tokio::test(flavor = "multi_thread")]
async fn lanes_without_wakes_are_spread_and_no_first_wake_moves_one() {
    let stage = fleet::stage().await;
    let workers = [stage.worker().await, stage.worker().await, stage.worker().await];
    let all: Vec<&Worker> = workers.iter().collect();
    until_heard(&all, 3).await;
    for lane in 0..8 {
        stage.until_lane(lane, "not pulled by one", |info| info.num_waiting == 1).await;
    }
    for nth in 0..64 {
        stage.publish(&event(nth)).await;
    }
    stage.settled().await;
    until_shared(&all, &[3, 3, 2]).await;
    for worker in &workers {
        assert!(handed_over(worker).await < 1.0, "{}", worker.told("a lane has moved"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_cut_off_from_its_database_keeps_no_lane_and_has_its_share_once_it_is_back() {
    let stage = fleet::stage().await;
    let proxy = Proxy::before(port_of(&stage.database_url)).await;
    let mut command = stage.command(&["run"]);
    command
        .env("WAKEGATE_DATABASE_URL", proxy.url(&stage.database_url))
        .env("WAKEGATE_LANES_STORE_AWAY_GIVE_UP_MS", "1000");
    let cut_off = Worker::spawn(command).await;
    cut_off.ready().await;
    let others = [stage.worker().await, stage.worker().await];
    let all = [&cut_off, &others[0], &others[1]];
    let load = Load::begin(&stage);
    until_shared(&all, &[3, 3, 2]).await;

    proxy.set(Manner::Refuse);
    until_shared(&[&others[0], &others[1]], &[4, 4]).await;
    let none = async || owned(&cut_off).await.is_empty().then_some(());
    until_some(none, || cut_off.told("it keeps lanes that it cannot work")).await;
    load.more(200).await;
    assert_eq!(owned(&cut_off).await, [""; 0], "it attracts lanes that it cannot work");

    proxy.set(Manner::Forward);
    until_shared(&all, &[3, 3, 2]).await;
    let published = load.end().await;
    stage.settled().await;
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.on_stream(), accounts.gone, accounts.lost), (published, 0, 0));
}
