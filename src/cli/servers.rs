//! What commands need of the servers: connections and stores as configured, and errors that say
//! what to do.

use std::future::Future;
use std::str::FromStr as _;

use sqlx::sqlite::SqliteConnectOptions;
use tokio::runtime::{Builder, Runtime};

use super::{Exit, Failure};
use crate::broker::{self, Broker, BrokerOptions};
use crate::config::{Config, DatabaseUrl, Dialect};
use crate::error_text::one_line;
use crate::store::postgres::PostgresStore;
use crate::store::sqlite::SqliteStore;
use crate::store::{Store as _, StoreError, StoreOptions, UrlError};
use crate::topology::{Topology, TopologyError};

/// Runs a command's asynchronous part.
pub(super) fn block_on<T>(
    builder: &mut Builder,
    future: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let runtime: Runtime = builder
        .enable_all()
        .build()
        .map_err(|error| Failure::of("cannot start the runtime", &error))?;
    runtime.block_on(future)
}

/// How to connect to NATS.
pub(super) fn broker_options(config: &Config) -> BrokerOptions {
    BrokerOptions {
        url: config.nats.url.expose(),
        credentials_file: config.nats.credentials_file.clone(),
        tls: config.nats.tls.clone(),
        inbox_prefix: config.nats.inbox_prefix.clone(),
        request_timeout: config.nats.request_timeout,
        name: "wakegate".to_owned(),
    }
}

/// How to connect to NATS for answering operators.
pub(super) fn control_broker_options(config: &Config) -> BrokerOptions {
    let control = &config.control;
    let nats = broker_options(config);
    let (url, credentials_file) = match &control.nats_url {
        Some(url) => (url.expose(), control.credentials_file.clone()),
        None => (nats.url, control.credentials_file.clone().or(nats.credentials_file)),
    };
    BrokerOptions { url, credentials_file, name: "wakegate control".to_owned(), ..nats }
}

/// How to connect to NATS for telling what becomes of runs, as the worker.
pub(super) fn events_broker_options(config: &Config) -> BrokerOptions {
    BrokerOptions { name: "wakegate events".to_owned(), ..broker_options(config) }
}

/// How to connect to NATS for answering runners.
pub(super) fn queue_broker_options(config: &Config) -> BrokerOptions {
    let queue = &config.queue;
    let nats = broker_options(config);
    let (url, credentials_file) = match &queue.nats_url {
        Some(url) => (url.expose(), queue.credentials_file.clone()),
        None => (nats.url, queue.credentials_file.clone().or(nats.credentials_file)),
    };
    BrokerOptions { url, credentials_file, name: "wakegate queue".to_owned(), ..nats }
}

/// One attempt to connect, for a command that a person waits for.
pub(super) async fn connect(config: &Config) -> Result<Broker, Failure> {
    broker::connect_once(&broker_options(config)).await.map_err(|error| broker_failure(&error))
}

/// What waiting for a connection cannot mend, or has not mended.
pub(super) fn broker_failure(error: &broker::BrokerError) -> Failure {
    let failure = Failure::new(error.to_string());
    match error {
        broker::BrokerError::Url { .. } => {
            failure.exits(Exit::Configuration).remedy("set WAKEGATE_NATS_URL")
        }
        broker::BrokerError::Credentials { .. } => failure
            .exits(Exit::Configuration)
            .remedy("name a .creds file in WAKEGATE_NATS_CREDENTIALS_FILE"),
        broker::BrokerError::Tls { .. } => failure
            .exits(Exit::Configuration)
            .remedy("name PEM files in WAKEGATE_NATS_TLS_CA_FILE and the settings beside it"),
        broker::BrokerError::Unreachable { .. } => {
            failure.remedy("start nats-server with JetStream, or set WAKEGATE_NATS_URL")
        }
    }
}

/// The streams as declared.
pub(super) fn topology(config: &Config) -> Result<Topology, Failure> {
    Topology::load(config.streams.directory.as_deref()).map_err(|error| {
        Failure::new(error.to_string())
            .exits(Exit::Configuration)
            .remedy("correct the file, or unset streams.directory to use what is compiled in")
    })
}

/// A server that is not as declared, or cannot be asked.
pub(super) fn topology_failure(error: &TopologyError) -> Failure {
    let failure = Failure::new(error.to_string().trim_end());
    match error {
        TopologyError::Differs(_)
        | TopologyError::Unchangeable(_)
        | TopologyError::PartitionsInUse { .. } => failure.exits(Exit::StreamsDiffer),
        TopologyError::File { .. } => failure.exits(Exit::Configuration),
        _ => failure,
    }
}

/// The configured store.
pub(super) enum AnyStore {
    /// `postgres://`
    Postgres(PostgresStore),
    /// `sqlite://`
    Sqlite(SqliteStore),
}

/// Names the database; nothing is asked of it yet. To be called within a runtime.
pub(super) fn store(config: &Config) -> Result<AnyStore, Failure> {
    let options = StoreOptions {
        connections_max: config.database.connections_max,
        read_deadline: config.database.read_deadline,
        record_deadline: config.database.record_deadline,
    };
    open(&config.database.url, &options, "WAKEGATE_DATABASE_URL")
}

/// The worker's database for a command that looks things up or tidies up: it has to be there, and its
/// schema has to be this program's.
///
/// # Errors
/// There is none, it cannot be asked, or its schema is another one.
pub(super) async fn database(config: &Config) -> Result<AnyStore, Failure> {
    let options = StoreOptions {
        connections_max: config.control.connections_max,
        read_deadline: config.database.read_deadline,
        record_deadline: config.database.record_deadline,
    };
    present(&config.database.url, "WAKEGATE_DATABASE_URL")?;
    let opened = open(&config.database.url, &options, "WAKEGATE_DATABASE_URL")?;
    let ready = match &opened {
        AnyStore::Postgres(store) => store.ping().await,
        AnyStore::Sqlite(store) => store.ping().await,
    };
    ready.map_err(|error| database_failure(config, &error))?;
    Ok(opened)
}

/// What the database answered, without its password.
pub(super) fn database_failure(config: &Config, error: &StoreError) -> Failure {
    Failure::new(config.database.url.url().scrub(&one_line(error)))
        .remedy("WAKEGATE_DATABASE_URL says which database")
}

/// The same database for operators: connections of its own, and few.
///
/// # Errors
/// There is none; nothing else is asked yet.
pub(super) fn control_store(config: &Config) -> Result<AnyStore, Failure> {
    let (url, variable) = control_url(config);
    present(url, variable)?;
    control_store_of_a_worker(config)
}

/// As [`control_store`], for a worker: what is not there yet is waited for.
pub(super) fn control_store_of_a_worker(config: &Config) -> Result<AnyStore, Failure> {
    let options = StoreOptions {
        connections_max: config.control.connections_max,
        read_deadline: config.control.deadline,
        record_deadline: config.control.deadline,
    };
    let (url, variable) = control_url(config);
    open(url, &options, variable)
}

/// The same database for runners, with connections of its own.
///
/// # Errors
/// There is none; nothing else is asked yet.
pub(super) fn queue_store(config: &Config) -> Result<AnyStore, Failure> {
    let (url, variable) = queue_url(config);
    present(url, variable)?;
    queue_store_of_a_worker(config)
}

/// As [`queue_store`], for a worker: what is not there yet is waited for.
pub(super) fn queue_store_of_a_worker(config: &Config) -> Result<AnyStore, Failure> {
    let options = StoreOptions {
        connections_max: config.queue.connections_max,
        read_deadline: config.queue.deadline,
        record_deadline: config.queue.deadline,
    };
    let (url, variable) = queue_url(config);
    open(url, &options, variable)
}

fn control_url(config: &Config) -> (&DatabaseUrl, &'static str) {
    or_the_workers(config, config.control.database_url.as_ref(), "WAKEGATE_CONTROL_DATABASE_URL")
}

fn queue_url(config: &Config) -> (&DatabaseUrl, &'static str) {
    or_the_workers(config, config.queue.database_url.as_ref(), "WAKEGATE_QUEUE_DATABASE_URL")
}

fn or_the_workers<'a>(
    config: &'a Config,
    own: Option<&'a DatabaseUrl>,
    variable: &'static str,
) -> (&'a DatabaseUrl, &'static str) {
    own.map_or((&config.database.url, "WAKEGATE_DATABASE_URL"), |own| (own, variable))
}

/// No command but `migrate` and `run` makes a SQLite file: to look for one must not leave one behind.
fn present(url: &DatabaseUrl, variable: &str) -> Result<(), Failure> {
    if url.dialect() == Dialect::Sqlite
        && let Ok(options) = SqliteConnectOptions::from_str(url.url().expose())
        && !options.get_filename().exists()
    {
        let file = options.get_filename().display().to_string();
        return Err(Failure::new(format!("there is no database {file}"))
            .remedy(format!("{variable} says which; `wakegate migrate` makes one")));
    }
    Ok(())
}

fn open(url: &DatabaseUrl, options: &StoreOptions, variable: &str) -> Result<AnyStore, Failure> {
    let exposed = url.url().expose();
    match url.dialect() {
        Dialect::Postgres => PostgresStore::connect(exposed, options).map(AnyStore::Postgres),
        Dialect::Sqlite => SqliteStore::connect(exposed, options).map(AnyStore::Sqlite),
    }
    .map_err(|error: UrlError| {
        Failure::new(error.to_string()).exits(Exit::Configuration).remedy(format!("set {variable}"))
    })
}
