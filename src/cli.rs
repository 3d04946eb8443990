//! The command: arguments, exit codes, and one file a subcommand.
//!
//! Standard output carries what a command was asked for, standard error what went wrong.

mod agents;
mod cancel;
pub mod completions;
pub mod config;
pub mod explain;
pub mod failure;
mod limits;
pub mod migrate;
mod operators;
mod pause;
pub mod prune;
pub mod publish;
pub mod redrive;
mod resume;
mod rewind;
pub mod run;
pub mod runs;
mod servers;
pub mod status;
pub mod streams;
pub mod table;
pub mod tail;
pub mod times;
pub mod why;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use self::agents::table as agents_table;
pub use self::failure::{Exit, Failure};
pub use self::limits::table as limits_table;
use crate::config::{Config, Loaded};

const AFTER_HELP: &str = "\
Exit codes:
  0    done
  1    failed; standard error says what, for what, and what to do
  2    a wrong configuration or a wrong usage; nothing was started
  3    publish: the server called an event a duplicate
  4    the streams on the server differ from their declaration
  5    pause, resume, agents, cancel: nothing was changed, for what is there is in the way
  130  ended at once by a second SIGINT
  143  ended at once by a second SIGTERM

Examples:
  wakegate config check                      what is configured, and by what
  wakegate streams apply && wakegate migrate make server and database ready
  wakegate run                               admit wakes until SIGTERM
  wakegate publish event.json --outcome      publish one event and see what became of it
  wakegate pause --platform --reason flood   refuse every wake until `wakegate resume`
  wakegate status                            workers, lanes, counts and pauses
  wakegate tail                              refusals and rejections, as they come";

/// Turns wake events on NATS JetStream into runs: every wake becomes one run, joins one, or is
/// refused with a reason.
#[derive(Debug, Parser)]
#[command(name = "wakegate", version, max_term_width = 100, after_help = AFTER_HELP)]
pub struct Cli {
    /// TOML file to read instead of `wakegate.toml`; `WAKEGATE_*` variables override it
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the worker
    Run(run::RunArgs),
    /// Bring the database's schema up to date
    Migrate(migrate::MigrateArgs),
    /// Apply or check the streams on the server, or rewind their lanes
    #[command(after_help = streams::AFTER_HELP)]
    Streams {
        /// Which.
        #[command(subcommand)]
        command: streams::StreamsCommand,
    },
    /// Publish events
    Publish(publish::PublishArgs),
    /// Refuse new wakes, of everybody or of one organization
    Pause(pause::PauseArgs),
    /// Decide new wakes again
    Resume(resume::ResumeArgs),
    /// Cancel a run
    Cancel(cancel::CancelArgs),
    /// Look at the status of agents, or set it
    #[command(after_help = agents::AFTER_HELP)]
    Agents {
        /// Which.
        #[command(subcommand)]
        command: agents::AgentsCommand,
    },
    /// Show which limits are in force and how much of them is used, or set an organization's
    Limits(limits::LimitsArgs),
    /// Show workers, lanes, counts and pauses
    Status(status::StatusArgs),
    /// Tell what would become of an event now, gate by gate, and publish nothing
    Explain(explain::ExplainArgs),
    /// Tell what became of a task's wakes, of a wake or of a run
    Why(why::WhyArgs),
    /// Show refusals, degraded admissions and rejections as they come
    Tail(tail::TailArgs),
    /// Publish refused or rejected wakes again; without --execute, only tell which
    Redrive(redrive::RedriveArgs),
    /// List runs, newest first
    Runs(runs::RunsArgs),
    /// Delete what has ended and can no longer be asked for
    Prune(prune::PruneArgs),
    /// Look at the configuration
    #[command(after_help = config::AFTER_HELP)]
    Config {
        /// Which.
        #[command(subcommand)]
        command: config::ConfigCommand,
    },
    /// Print completions for a shell
    Completions(completions::CompletionsArgs),
}

/// Parses, configures, executes, and says how it ended.
#[must_use]
pub fn main() -> ExitCode {
    // A wrong usage ends in here, with exit code 2.
    let cli = Cli::parse();
    match execute(cli) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            // Where standard error is closed, the exit code has to do.
            let _ = writeln!(io::stderr().lock(), "{}", table::remark(&failure.to_string()));
            failure.exit.into()
        }
    }
}

fn execute(cli: Cli) -> Result<Exit, Failure> {
    if let Command::Completions(args) = &cli.command {
        return completions::execute(args);
    }
    let loaded: Loaded = Config::from_environment(cli.config.as_deref())?;
    match cli.command {
        Command::Run(args) => run::execute(&loaded, args),
        Command::Migrate(args) => migrate::execute(&loaded.config, args),
        Command::Streams { command } => streams::execute(&loaded.config, command),
        Command::Publish(args) => publish::execute(&loaded.config, args),
        Command::Pause(args) => pause::execute(&loaded.config, args),
        Command::Resume(args) => resume::execute(&loaded.config, args),
        Command::Cancel(args) => cancel::execute(&loaded.config, args),
        Command::Agents { command } => agents::execute(&loaded.config, command),
        Command::Limits(args) => limits::execute(&loaded.config, args),
        Command::Status(args) => status::execute(&loaded.config, &args),
        Command::Explain(args) => explain::execute(&loaded.config, &args),
        Command::Why(args) => why::execute(&loaded.config, &args),
        Command::Tail(args) => tail::execute(&loaded.config, &args),
        Command::Redrive(args) => redrive::execute(&loaded.config, &args),
        Command::Runs(args) => runs::execute(&loaded.config, &args),
        Command::Prune(args) => prune::execute(&loaded.config, &args),
        Command::Config { command } => config::execute(&loaded, command),
        Command::Completions(args) => completions::execute(&args),
    }
}

/// Writes to standard output. A reader that has gone away, such as `head`, has what it wanted.
///
/// # Errors
/// Standard output cannot be written for any other reason.
pub fn print(text: &str) -> Result<(), Failure> {
    print_on(text).map(drop)
}

/// As [`print()`], for a command that has more to print: whether anybody reads on.
///
/// # Errors
/// Standard output cannot be written for any other reason than that.
pub fn print_on(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::of("cannot write to standard output", &error)),
    }
}
