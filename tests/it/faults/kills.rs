//! Everything that can be killed is, at random moments under load.

use futures_util::future::join_all;
use rand::Rng as _;

use super::accounts::add_up;
use super::load::{Load, SMALL, open, until_open};
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Stage};

on_both_databases!(a_broker_killed_again_and_again_under_load_costs_nothing_but_time);

/// Workers at once, each on servers of its own.
const WORKERS: u64 = 6;
/// How often each is killed.
const KILLS: u64 = 9;
const BROKER_KILLS: u32 = 3;

#[tokio::test]
async fn workers_killed_fifty_four_times_at_random_moments_decide_everything_once() {
    const { assert!(WORKERS * KILLS == 54) };
    let seed = rand::random::<u64>() >> 16;
    join_all((0..WORKERS).map(|nth| Box::pin(killed_again_and_again(seed + nth)))).await;
}

async fn killed_again_and_again(seed: u64) {
    let dialect = if seed.is_multiple_of(2) { Dialect::Sqlite } else { Dialect::Postgres };
    let stage = Stage::with(dialect, SMALL).await;
    let mut load = Load::new(seed);
    for _ in 0..KILLS {
        let worker = stage.worker_starting().await;
        load.publish(&stage, 40).await;
        match load.rng.random_range(0..4) {
            // As it is, at whatever it does.
            0 => {}
            1 => worker.until_logged("working").await,
            _ => {
                let open = open(&stage).await;
                until_open(&stage, open.saturating_sub(load.rng.random_range(0..40))).await;
            }
        }
        worker.kill();
    }
    stage.catch_up();
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.on_stream() as u64, accounts.gone), (KILLS * 40, 0), "{accounts:?}");
    assert_eq!(accounts.lost, 0);

    stage.deliver_everything_again().await;
    stage.catch_up();
    assert_eq!(add_up(&stage).await, accounts, "seed {seed}");
}

async fn a_broker_killed_again_and_again_under_load_costs_nothing_but_time(dialect: Dialect) {
    let mut stage = Stage::with(dialect, SMALL).await;
    let mut load = Load::new(rand::random());
    let mut worker = stage.worker().await;
    let mut published = 0;
    for _ in 0..BROKER_KILLS {
        load.publish(&stage, 60).await;
        published += 60;
        until_open(&stage, load.rng.random_range(0..60)).await;
        stage.nats.kill();
        stage.nats.start_again().await;
    }
    load.publish(&stage, 10).await;
    stage.settled().await;
    assert!(worker.runs(), "{}", worker.log());
    worker.ready().await;
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.on_stream(), accounts.gone, accounts.lost), (published + 10, 0, 0));
}
