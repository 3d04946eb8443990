//! `wakegate streams apply`, `wakegate streams check` and `wakegate streams rewind`.

use clap::Subcommand;

use tokio::runtime::Builder;

use super::servers::{block_on, connect, topology, topology_failure};
use super::{Exit, Failure, print, rewind};
use crate::config::Config;
use crate::topology::render;

const AFTER_APPLY_HELP: &str = "\
It changes nothing where the server matches, so it may run before every start. The number of
partitions is not changed while anything is pending.

Examples:
  wakegate streams apply
  WAKEGATE_STREAMS_DIRECTORY=./streams wakegate streams apply";

const AFTER_CHECK_HELP: &str = "\
It changes nothing. The exit code is 4 where anything differs; `wakegate streams apply` then makes
the server match, and what cannot be changed is named as such.

Examples:
  wakegate streams check";

/// Shown below the help of `streams`.
pub const AFTER_HELP: &str = "\
The declaration is compiled in; a directory named by streams.directory is used instead.

Examples:
  wakegate streams check || wakegate streams apply";

/// Subcommands of `streams`.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum StreamsCommand {
    /// Make the server's streams and consumers match their declaration
    #[command(after_help = AFTER_APPLY_HELP)]
    Apply,
    /// Report every difference between the server and the declaration
    #[command(after_help = AFTER_CHECK_HELP)]
    Check,
    /// Have delivered again what a restored database does not know
    #[command(after_help = rewind::AFTER_HELP)]
    Rewind,
}

/// Applies, checks or rewinds.
pub(super) fn execute(config: &Config, command: StreamsCommand) -> Result<Exit, Failure> {
    let topology = topology(config)?;
    let batch_wakes_max = config.lanes.batch_wakes_max;
    block_on(&mut Builder::new_current_thread(), async {
        let context = connect(config).await?.jetstream();
        match command {
            StreamsCommand::Apply => {
                let report = topology.apply(&context, batch_wakes_max).await;
                print(&report.map_err(|error| topology_failure(&error))?.to_string())?;
                Ok(Exit::Done)
            }
            StreamsCommand::Check => {
                let found = topology.check(&context, batch_wakes_max).await;
                let differences = found.map_err(|error| topology_failure(&error))?;
                print(&render(&differences))?;
                Ok(if differences.is_empty() { Exit::Done } else { Exit::StreamsDiffer })
            }
            StreamsCommand::Rewind => rewind::execute(config, &topology, &context).await,
        }
    })
}
