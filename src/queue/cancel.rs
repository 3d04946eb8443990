//! What keeps a run from running, or ends it: by whoever asked for it, by an organization's people, by
//! the platform's.

use super::documents::{CancelReply, CancelRequest, CancelState, WithdrawReply, WithdrawRequest};
use crate::control::documents::Scope;
use crate::control::{ControlError, ErrorCode};
use crate::store::control::Operator;
use crate::store::queue::{self as store, CancelAnswer, CancelScope, QueueStore, RunStatus};
use crate::wake::{RunId, UtcMicros};

/// Withdraws a queued run, for whoever asked for it.
///
/// # Errors
/// `unknown_run` where there is none of theirs, `not_queued` where it is under way, `already_ended`
/// where it has ended otherwise.
pub async fn withdraw<S: QueueStore>(
    store: &S,
    request: WithdrawRequest,
    now: UtcMicros,
) -> Result<WithdrawReply, ControlError> {
    let actor = Operator::parse(request.actor.as_str()).map_err(|fault| {
        ControlError::of_field(ErrorCode::InvalidField, "actor", &fault.to_string())
    })?;
    let run_id = request.run_id;
    let scope = CancelScope::Initiator(request.organization_id, request.actor);
    let asked = store::CancelRequest { run_id, scope, actor, reason: request.reason, now };
    let (status, _) = told(&asked, store.cancel(&asked).await?)?;
    Ok(WithdrawReply { run_id, status })
}

/// Cancels a run: one that is queued at once; the runner of one under way is asked to end it.
///
/// # Errors
/// `unknown_run` where there is none in the scope, `already_ended` where it has ended otherwise.
pub async fn cancel<S: QueueStore>(
    store: &S,
    request: CancelRequest,
    now: UtcMicros,
) -> Result<CancelReply, ControlError> {
    let run_id = request.run_id;
    let field = "organization_id";
    let scope = match (request.scope, request.organization_id) {
        (Scope::Platform, None) => CancelScope::Platform,
        (Scope::Organization, Some(organization)) => CancelScope::Organization(organization),
        (Scope::Platform, Some(_)) => {
            let what = "is of no use with the scope platform, which is every organization";
            return Err(ControlError::of_field(ErrorCode::InvalidField, field, what));
        }
        (Scope::Organization, None) => {
            let what = "is missing, and wanted with the scope organization";
            return Err(ControlError::of_field(ErrorCode::MissingField, field, what));
        }
    };
    let (actor, reason) = (request.actor, request.reason);
    let asked = store::CancelRequest { run_id, scope, actor, reason, now };
    let (status, requested_at) = told(&asked, store.cancel(&asked).await?)?;
    Ok(CancelReply { run_id, status, requested_at })
}

fn told(
    asked: &store::CancelRequest,
    answer: CancelAnswer,
) -> Result<(CancelState, Option<UtcMicros>), ControlError> {
    let (state, at) = match answer {
        CancelAnswer::Cancelled => (CancelState::Cancelled, None),
        CancelAnswer::Requested { at } => (CancelState::Cancelling, Some(at)),
        CancelAnswer::UnderWay => {
            let message = "it is under way: it can be cancelled, and not withdrawn any more";
            return Err(ControlError::new(ErrorCode::NotQueued, message));
        }
        CancelAnswer::Ended(status) => return Err(ended(status)),
        CancelAnswer::NotFound => return Err(unknown(asked.run_id)),
    };
    tracing::info!(
        run_id = %asked.run_id,
        actor = %asked.actor,
        reason = %asked.reason,
        ended = at.is_none(),
        "a run was cancelled"
    );
    Ok((state, at))
}

/// There is no such run, for whoever asks.
pub(super) fn unknown(run_id: RunId) -> ControlError {
    ControlError::new(ErrorCode::UnknownRun, format!("there is no run {run_id} here"))
}

/// The run has ended, and otherwise than is asked for.
pub(super) fn ended(status: RunStatus) -> ControlError {
    let message = format!("it has ended already: {status}");
    ControlError::of_run(ErrorCode::AlreadyEnded, status.as_str(), message)
}
