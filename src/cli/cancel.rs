//! `wakegate cancel`.

use clap::Args;
use uuid::Uuid;

use super::operators::{ScopeArgs, Signature, on_queue_store, print_as};
use super::servers::AnyStore;
use super::table::Form;
use super::{Exit, Failure};
use crate::clock::Clock;
use crate::config::Config;
use crate::queue::cancel;
use crate::queue::documents::{CancelReply, CancelRequest, CancelState};
use crate::wake::RunId;

const AFTER_HELP: &str = "\
A queued run ends at once and is never started. The runner of one that is claimed or runs is told at
its next heartbeat; where it does not confirm within queue.cancel_grace_seconds, the run ends all the
same. To cancel again changes nothing and succeeds; where the run has ended otherwise, or there is
none in the scope, the exit code is 5.

Examples:
  wakegate cancel 0192f0c1-7c00-7000-8000-000000000001 --organization acme --reason 'wrong task'
  wakegate cancel 0192f0c1-7c00-7000-8000-000000000001 --platform --reason 'incident 42' --actor ann";

/// Arguments of `cancel`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct CancelArgs {
    /// The run's id
    #[arg(value_name = "RUN")]
    pub run_id: Uuid,
    /// Whose runs may be meant.
    #[command(flatten)]
    pub scope: ScopeArgs,
    /// Who and why.
    #[command(flatten)]
    pub signature: Signature,
    /// Print JSON also in a terminal
    #[arg(long)]
    pub json: bool,
}

/// Cancels.
pub(super) fn execute(config: &Config, args: CancelArgs) -> Result<Exit, Failure> {
    let (scope, organization_id) = args.scope.scope();
    let request = CancelRequest {
        run_id: RunId::from(args.run_id),
        scope,
        organization_id,
        actor: args.signature.actor,
        reason: args.signature.reason,
    };
    let now = Clock::system().now();
    let reply: CancelReply = on_queue_store(config, async |store| match store {
        AnyStore::Postgres(store) => cancel::cancel(&store, request, now).await,
        AnyStore::Sqlite(store) => cancel::cancel(&store, request, now).await,
    })?;
    print_as(Form::of_output(args.json), &reply, |reply, _| told(reply))
}

fn told(reply: &CancelReply) -> String {
    match (reply.status, reply.requested_at) {
        (CancelState::Cancelling, Some(at)) => {
            format!("cancelling: run {}, whose runner is to end it since {at}\n", reply.run_id)
        }
        _ => format!("cancelled: run {}\n", reply.run_id),
    }
}
