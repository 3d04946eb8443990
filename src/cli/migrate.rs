//! `wakegate migrate`.

use clap::Args;

use tokio::runtime::Builder;

use super::servers::{AnyStore, block_on, store};
use super::{Exit, Failure, print};
use crate::config::Config;
use crate::error_text::one_line;
use crate::store::{Database as _, MigrateError};

const AFTER_HELP: &str = "\
It does nothing where the schema is up to date, so it may run before every start. A SQLite file is
created if it is missing; a PostgreSQL database has to be there.

Examples:
  wakegate migrate
  WAKEGATE_DATABASE_URL=postgres://wakegate@db.example/wakegate wakegate migrate";

/// Arguments of `migrate`.
#[derive(Debug, Clone, Copy, Args)]
#[command(after_help = AFTER_HELP)]
pub struct MigrateArgs {}

/// Brings the schema up to date.
pub(super) fn execute(config: &Config, args: MigrateArgs) -> Result<Exit, Failure> {
    let MigrateArgs {} = args;
    block_on(&mut Builder::new_current_thread(), async {
        let migrated = match store(config)? {
            AnyStore::Postgres(store) => store.migrate().await,
            AnyStore::Sqlite(store) => store.migrate().await,
        };
        migrated.map_err(|error| failure(config, &error))?;
        print(&format!("the schema of {} is up to date\n", config.database.url.url()))?;
        Ok(Exit::Done)
    })
}

fn failure(config: &Config, error: &MigrateError) -> Failure {
    let failure = Failure::new(config.database.url.url().scrub(&one_line(error)));
    match error {
        MigrateError::Store(_) => failure
            .remedy("is the database there? WAKEGATE_DATABASE_URL says where it is looked for"),
        MigrateError::Schema(_) | MigrateError::History { .. } => failure,
    }
}
