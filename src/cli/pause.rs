//! `wakegate pause`.

use clap::{Args, ValueEnum};

use super::operators::{ScopeArgs, Signature, on_store, print_as};
use super::servers::AnyStore;
use super::table::{Form, seconds, shown, wrapped};
use super::{Exit, Failure};
use crate::clock::Clock;
use crate::config::Config;
use crate::control::documents::{Mode, PauseDocument, PauseReply, PauseRequest, Scope};
use crate::control::pauses;

const AFTER_HELP: &str = "\
It takes effect with the next batch of every worker: wakes are refused, and their refusals name
the pause, and no run is given to a runner. What is under way goes on with mode drain; stop-now
cancels it, and its runners are told at their next heartbeat.
To pause again for the same reason changes nothing and succeeds; where somebody else has paused,
or for another reason, the exit code is 5.

Examples:
  wakegate pause --organization acme --reason 'runaway agent'
  wakegate pause --platform --mode stop-now --reason 'incident 42' --actor ann";

/// Arguments of `pause`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct PauseArgs {
    /// What.
    #[command(flatten)]
    pub scope: ScopeArgs,
    /// What becomes of runs that are there already
    #[arg(long, value_enum, default_value_t = ModeArg::Drain)]
    pub mode: ModeArg,
    /// Who and why.
    #[command(flatten)]
    pub signature: Signature,
    /// Print JSON also in a terminal
    #[arg(long)]
    pub json: bool,
}

/// As an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModeArg {
    /// They go on
    Drain,
    /// They are cancelled, and their runners are told
    StopNow,
}

/// Pauses.
pub(super) fn execute(config: &Config, args: PauseArgs) -> Result<Exit, Failure> {
    let (scope, organization_id) = args.scope.scope();
    let request = PauseRequest {
        scope,
        organization_id,
        mode: match args.mode {
            ModeArg::Drain => Mode::Drain,
            ModeArg::StopNow => Mode::StopNow,
        },
        actor: args.signature.actor,
        reason: args.signature.reason,
    };
    let now = Clock::system().now();
    let reply: PauseReply = on_store(config, async |store| match store {
        AnyStore::Postgres(store) => pauses::pause(&store, request, now).await,
        AnyStore::Sqlite(store) => pauses::pause(&store, request, now).await,
    })?;
    print_as(Form::of_output(args.json), &reply, |reply, width| {
        let done = if reply.created { "paused" } else { "paused already by the same request" };
        wrapped(&format!("{done}: {}", told(&reply.pause)), 2, width) + "\n"
    })
}

/// A pause in a line.
pub(super) fn told(pause: &PauseDocument) -> String {
    let scope = match (pause.scope, &pause.organization_id) {
        (Scope::Organization, Some(id)) => format!("organization {}", shown(id.as_str())),
        _ => "the platform".to_owned(),
    };
    format!("{scope}, since {} (pause {})", seconds(pause.created_at), shown(&pause.id))
}
