//! `wakegate resume`.

use clap::Args;

use super::operators::{ScopeArgs, Signature, on_store, print_as};
use super::pause::told;
use super::servers::AnyStore;
use super::table::{Form, wrapped};
use super::{Exit, Failure};
use crate::clock::Clock;
use crate::config::Config;
use crate::control::documents::{ResumeReply, ResumeRequest};
use crate::control::pauses;

const AFTER_HELP: &str = "\
It takes effect with the next batch of every worker. What was refused meanwhile stays refused.
Where nothing is paused, or another pause is active than the one that --pause-id names, the exit
code is 5.

Examples:
  wakegate resume --organization acme --reason 'agent fixed'
  wakegate resume --platform --pause-id 3f1c… --reason 'incident 42 is over'";

/// Arguments of `resume`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct ResumeArgs {
    /// What.
    #[command(flatten)]
    pub scope: ScopeArgs,
    /// This pause and no other; so named, the command may be repeated
    #[arg(long, value_name = "ID")]
    pub pause_id: Option<String>,
    /// Who and why.
    #[command(flatten)]
    pub signature: Signature,
    /// Print JSON also in a terminal
    #[arg(long)]
    pub json: bool,
}

/// Resumes.
pub(super) fn execute(config: &Config, args: ResumeArgs) -> Result<Exit, Failure> {
    let (scope, organization_id) = args.scope.scope();
    let request = ResumeRequest {
        scope,
        organization_id,
        pause_id: args.pause_id,
        actor: args.signature.actor,
        reason: args.signature.reason,
    };
    let now = Clock::system().now();
    let reply: ResumeReply = on_store(config, async |store| match store {
        AnyStore::Postgres(store) => pauses::resume(&store, request, now).await,
        AnyStore::Sqlite(store) => pauses::resume(&store, request, now).await,
    })?;
    print_as(Form::of_output(args.json), &reply, |reply, width| {
        let done = if reply.released { "resumed" } else { "resumed already by the same request" };
        wrapped(&format!("{done}: {}", told(&reply.pause)), 2, width) + "\n"
    })
}
