//! What answers operators beside the work: connections of its own, so that it does while the work's
//! are stuck.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{Beside, Surroundings};
use crate::broker::{self, Broker};
use crate::cli::Failure;
use crate::cli::servers::{
    AnyStore, broker_failure, control_broker_options, control_store_of_a_worker,
};
use crate::config::Loaded;
use crate::control::worker::Worker;
use crate::control::{Control, service};
use crate::shutdown::Shutdown;
use crate::store::control::ControlStore;

/// Starts to answer, unless it is switched off. A server that is away is waited for.
pub(super) async fn start(loaded: &Loaded, surroundings: &Surroundings) -> Result<Beside, Failure> {
    let config = &loaded.config;
    let mut controlling = JoinSet::new();
    if !config.control.enabled {
        return Ok(controlling);
    }
    let worker = Worker {
        configuration: Arc::new(loaded.clone()),
        health: surroundings.health.clone(),
        metrics: surroundings.metrics.clone(),
        started_at: surroundings.clock.now(),
    };
    let broker = broker::connect(&control_broker_options(config)).await;
    let broker = broker.map_err(|error| broker_failure(&error))?;
    let (clock, shutdown) = (surroundings.clock.clone(), surroundings.shutdown.clone());
    let requests_max = config.control.requests_max as usize;
    match control_store_of_a_worker(config)? {
        AnyStore::Postgres(store) => {
            let control = Control::new(store, worker, clock);
            controlling.spawn(serve(control, broker, requests_max, shutdown));
        }
        AnyStore::Sqlite(store) => {
            let control = Control::new(store, worker, clock);
            controlling.spawn(serve(control, broker, requests_max, shutdown));
        }
    }
    Ok(controlling)
}

async fn serve<S: ControlStore>(
    control: Control<S>,
    broker: Broker,
    requests_max: usize,
    shutdown: Shutdown,
) -> Result<(), async_nats::Error> {
    service::serve(control, &broker, requests_max, &shutdown).await
}
