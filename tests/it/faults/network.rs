//! The network between the worker and either server: ends, stalls, cuts amid a message, and is slow.

use std::time::Duration;

use rand::Rng as _;

use super::accounts::add_up;
use super::load::Load;
use crate::harness::proxy::{Manner, Proxy, port_of};
use crate::harness::worker::Worker;
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Setting, Stage};

on_both_databases!(a_network_to_the_broker_that_fails_in_every_way_costs_nothing_but_time);

const WAKES: usize = 40;

/// Fails in each way, amid load; the worker must notice each before it works again.
async fn fail_in_every_way(stage: &Stage, proxy: &Proxy, worker: &mut Worker) -> usize {
    let mut load = Load::new(rand::random());
    let cut = load.rng.random_range(100..4_000);
    let mut published = 0;
    for manner in [
        Manner::Delay(Duration::from_millis(20)),
        Manner::Refuse,
        Manner::CutAfter(cut),
        Manner::Stall,
    ] {
        load.publish(stage, WAKES / 2).await;
        proxy.set(manner);
        load.publish(stage, WAKES / 2).await;
        published += WAKES;
        // A slow network is no fault; it only takes longer.
        if !matches!(manner, Manner::Delay(_)) {
            let noticed = |answer: &crate::harness::http::Answer| answer.status == 503;
            worker.until_readyz(&format!("{manner:?} is not noticed"), noticed).await;
            proxy.set(Manner::Forward);
        }
        stage.settled().await;
        worker.ready().await;
        assert!(worker.runs(), "{manner:?}: {}", worker.log());
    }
    published
}

async fn a_network_to_the_broker_that_fails_in_every_way_costs_nothing_but_time(dialect: Dialect) {
    let setting = Setting { partitions: 2, batch_wakes_max: 8, ..Setting::default() };
    let stage = Stage::with(dialect, setting).await;
    let proxy = Proxy::before(port_of(&stage.nats.url())).await;
    let url = proxy.url(&stage.nats.url());
    let mut worker = stage.worker_with(&[("WAKEGATE_NATS_URL", &url)]).await;
    let published = fail_in_every_way(&stage, &proxy, &mut worker).await;
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.on_stream(), accounts.gone, accounts.lost), (published, 0, 0));
}

#[tokio::test]
async fn a_network_to_postgres_that_fails_in_every_way_costs_nothing_but_time() {
    let setting = Setting { partitions: 2, batch_wakes_max: 8, ..Setting::default() };
    let stage = Stage::with(Dialect::Postgres, setting).await;
    let proxy = Proxy::before(port_of(&stage.database_url)).await;
    let url = proxy.url(&stage.database_url);
    let mut worker = stage.worker_with(&[("WAKEGATE_DATABASE_URL", &url)]).await;
    let published = fail_in_every_way(&stage, &proxy, &mut worker).await;
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.on_stream(), accounts.gone, accounts.lost), (published, 0, 0));
}
