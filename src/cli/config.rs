//! `wakegate config check`.

use clap::Subcommand;

use super::{Exit, Failure, print};
use crate::config::{Loaded, document};

const AFTER_CHECK_HELP: &str = "\
Every fault is named at once, with its file and line or its variable, and the exit code is 2.
Secrets are shown as ***. docs/configuration.md explains each setting.

Examples:
  wakegate config check
  wakegate --config staging.toml config check
  WAKEGATE_LANES_BATCH_WAKES_MAX=100 wakegate config check";

/// Shown below the help of `config`.
pub const AFTER_HELP: &str = "\
Examples:
  wakegate config check";

/// Subcommands of `config`.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum ConfigCommand {
    /// Print the configuration in force, and where each value comes from
    #[command(after_help = AFTER_CHECK_HELP)]
    Check,
}

/// A wrong configuration never comes as far as here.
pub(super) fn execute(loaded: &Loaded, command: ConfigCommand) -> Result<Exit, Failure> {
    match command {
        ConfigCommand::Check => print(&document::effective(loaded))?,
    }
    Ok(Exit::Done)
}
