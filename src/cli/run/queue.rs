//! What answers runners and keeps the queue in order beside the work: connections of its own, so that
//! it does while the work's are stuck.

use tokio::task::JoinSet;

use super::{Beside, Surroundings};
use crate::admission::limits::Dimension;
use crate::broker::{self, Broker, BrokerOptions};
use crate::cli::Failure;
use crate::cli::servers::{
    AnyStore, broker_failure, events_broker_options, queue_broker_options, queue_store_of_a_worker,
};
use crate::config::Config;
use crate::queue::answers::{Claims, Reports, Runs, RunsOptions};
use crate::queue::desk::{Desk, DeskOptions, Signals};
use crate::queue::events::Publisher;
use crate::queue::keepers::Keepers;
use crate::queue::work::Work;
use crate::queue::{service, signal};
use crate::store::runners::RunnerStore;

/// The queue's connections to NATS.
struct Brokers {
    answering: Broker,
    telling: Broker,
}

/// Starts to answer, unless it is switched off. A server that is away is waited for.
pub(super) async fn start(config: &Config, surroundings: &Surroundings) -> Result<Beside, Failure> {
    if !config.queue.enabled {
        return Ok(JoinSet::new());
    }
    // Discovery is answered wherever it is told to, so what answers may publish into inboxes only, and
    // what publishes answers nobody.
    let connect = async |options: BrokerOptions| {
        broker::connect(&options).await.map_err(|error| broker_failure(&error))
    };
    let brokers = Brokers {
        answering: connect(queue_broker_options(config)).await?,
        telling: connect(events_broker_options(config)).await?,
    };
    Ok(match queue_store_of_a_worker(config)? {
        AnyStore::Postgres(store) => spawn(config, surroundings, brokers, store),
        AnyStore::Sqlite(store) => spawn(config, surroundings, brokers, store),
    })
}

fn spawn<S: RunnerStore>(
    config: &Config,
    surroundings: &Surroundings,
    brokers: Brokers,
    store: S,
) -> Beside {
    let queue = &config.queue;
    let (clock, metrics) = (surroundings.clock.clone(), surroundings.metrics.clone());
    let shutdown = surroundings.shutdown.clone();
    let options = RunsOptions {
        lease: queue.lease,
        wait_max: queue.wait_max,
        cancel_grace: queue.cancel_grace,
        platform_active_max: active_max(config, Dimension::ActivePlatform),
        organization_active_max: active_max(config, Dimension::ActiveOrganization),
    };
    let signals = Signals { here: surroundings.queue.clone(), elsewhere: Work::default() };
    let told = Work::default();

    let mut queueing = JoinSet::new();
    let claims = Claims { store: store.clone(), clock: clock.clone(), options };
    let desk_options =
        DeskOptions { waiters_max: queue.waiters_max as usize, look_again: queue.look_again };
    let (desk, attended) =
        Desk::open(claims, desk_options, &signals, metrics.clone(), shutdown.clone());
    queueing.spawn(ending(attended));

    let keepers = Keepers {
        store: store.clone(),
        clock: clock.clone(),
        cancel_grace: queue.cancel_grace,
        interval: queue.keeper_interval,
        work: signals.here.clone(),
        told: told.clone(),
        metrics: metrics.clone(),
    };
    queueing.spawn(ending(keepers.run(shutdown.clone())));

    let publisher = Publisher {
        store: store.clone(),
        context: brokers.telling.jetstream(),
        deadline: config.nats.request_timeout,
        interval: queue.keeper_interval,
        clock: clock.clone(),
        told: told.clone(),
        metrics: metrics.clone(),
    };
    queueing.spawn(ending(publisher.run(shutdown.clone())));
    queueing.spawn(signal::exchange(
        brokers.telling.client.clone(),
        signals.clone(),
        shutdown.clone(),
    ));

    let reports = Reports { work: signals.here, told, metrics };
    let runs = Runs::new(store, desk, clock, options, reports);
    let requests_max = queue.requests_max as usize;
    queueing.spawn(async move {
        service::serve(runs, &brokers.answering, requests_max, &shutdown).await
    });
    queueing
}

/// The platform's ceiling; what organizations have lowered of it is the claim's business.
fn active_max(config: &Config, dimension: Dimension) -> u32 {
    if config.limits.enforced { config.limits.ceilings.of(dimension) } else { u32::MAX }
}

async fn ending(work: impl Future<Output = ()>) -> Result<(), async_nats::Error> {
    work.await;
    Ok(())
}
