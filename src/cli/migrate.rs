//! `wakegate migrate`.

use clap::Args;

use super::{Exit, Failure};
use crate::config::Config;

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
    let (_, MigrateArgs {}) = (config, args);
    Err(Failure::unavailable("migrate"))
}
