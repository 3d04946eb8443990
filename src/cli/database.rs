//! The database as commands that look at it, or tidy it up, open it: the worker's, with few
//! connections, and never made by looking at it.

use std::str::FromStr as _;

use sqlx::sqlite::SqliteConnectOptions;

use super::servers::AnyStore;
use super::{Exit, Failure};
use crate::config::{Config, Dialect};
use crate::error_text::one_line;
use crate::store::postgres::PostgresStore;
use crate::store::sqlite::SqliteStore;
use crate::store::{Store, StoreError, StoreOptions};

/// Most connections of such a command, beside those of a worker.
const CONNECTIONS_MAX: u32 = 2;

/// Opens the configured database, which has to be there.
///
/// To be called within a runtime.
///
/// # Errors
/// There is none, it cannot be asked, or its schema is not this program's.
pub(super) async fn open(config: &Config) -> Result<AnyStore, Failure> {
    if config.database.url.dialect() == Dialect::Sqlite
        && let Ok(options) = SqliteConnectOptions::from_str(config.database.url.url().expose())
        && !options.get_filename().exists()
    {
        let file = options.get_filename().display().to_string();
        return Err(Failure::new(format!("there is no database {file}"))
            .remedy("WAKEGATE_DATABASE_URL says which; `wakegate migrate` makes one"));
    }
    let options = StoreOptions {
        connections_max: CONNECTIONS_MAX,
        read_deadline: config.database.read_deadline,
        record_deadline: config.database.record_deadline,
    };
    let url = config.database.url.url().expose();
    let opened = match config.database.url.dialect() {
        Dialect::Postgres => PostgresStore::connect(url, &options).map(AnyStore::Postgres),
        Dialect::Sqlite => SqliteStore::connect(url, &options).map(AnyStore::Sqlite),
    };
    let opened = opened.map_err(|error| {
        Failure::new(error.to_string())
            .exits(Exit::Configuration)
            .remedy("set WAKEGATE_DATABASE_URL")
    })?;
    let ready = match &opened {
        AnyStore::Postgres(store) => store.ping().await,
        AnyStore::Sqlite(store) => store.ping().await,
    };
    ready.map_err(|error| failure(config, &error))?;
    Ok(opened)
}

/// What the database answered, without its password.
pub(super) fn failure(config: &Config, error: &StoreError) -> Failure {
    Failure::new(config.database.url.url().scrub(&one_line(error)))
        .remedy("WAKEGATE_DATABASE_URL says which database")
}
