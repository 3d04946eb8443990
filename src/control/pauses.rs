//! Pausing and resuming. Gate 2 reads what is written here at the next batch, wherever it runs.

use super::documents::{
    PauseDocument, PauseReply, PauseRequest, PausesReply, PausesRequest, ResumeReply,
    ResumeRequest, Scope,
};
use super::error::{ControlError, ErrorCode};
use super::pages::within_bytes;
use crate::store::control::{Change, NewPause, Pause, PauseScope, PauseStore, Released};
use crate::wake::{ID_BYTES_MAX, OrganizationId, UtcMicros};

/// Attempts where others pause and resume the same at the same time.
const ROUNDS_MAX: u32 = 3;

/// What is meant. A platform of one organization is a mistake, and so is an organization that is not
/// named.
fn scope_of(
    scope: Scope,
    organization_id: Option<&OrganizationId>,
) -> Result<PauseScope, ControlError> {
    let field = "organization_id";
    match (scope, organization_id) {
        (Scope::Platform, None) => Ok(PauseScope::Platform),
        (Scope::Organization, Some(organization)) => {
            Ok(PauseScope::Organization(organization.clone()))
        }
        (Scope::Platform, Some(_)) => {
            let what = "is of no use with the scope platform, which is every organization";
            Err(ControlError::of_field(ErrorCode::InvalidField, field, what))
        }
        (Scope::Organization, None) => Err(ControlError::of_field(
            ErrorCode::MissingField,
            field,
            "is missing, and wanted with the scope organization",
        )),
    }
}

/// Pauses. Where the same request has paused before, the answer is the pause that there is.
///
/// # Errors
/// `already_paused` where another request has.
pub async fn pause<S: PauseStore>(
    store: &S,
    request: PauseRequest,
    now: UtcMicros,
) -> Result<PauseReply, ControlError> {
    let scope = scope_of(request.scope, request.organization_id.as_ref())?;
    let by = Change { actor: request.actor, reason: request.reason, at: now };
    let new = NewPause { scope, mode: request.mode.into(), by };
    for _ in 0..ROUNDS_MAX {
        if let Some(pause) = store.insert_pause(&new).await? {
            tracing::warn!(
                pause_id = pause.id,
                scope = pause.scope.as_str(),
                organization_id = %pause.scope.organization(),
                mode = pause.mode.as_str(),
                actor = pause.actor,
                reason = pause.reason,
                "paused: new wakes are refused"
            );
            return Ok(PauseReply { created: true, pause: pause.into() });
        }
        match store.active_pause(&new.scope).await? {
            Some(pause) if is_of(&pause, &new) => {
                return Ok(PauseReply { created: false, pause: pause.into() });
            }
            Some(pause) => return Err(already(&pause)),
            // Resumed by somebody between the two.
            None => {}
        }
    }
    Err(contended())
}

fn is_of(pause: &Pause, new: &NewPause) -> bool {
    pause.mode == new.mode
        && pause.actor == new.by.actor.as_str()
        && pause.reason == new.by.reason.as_str()
}

fn already(pause: &Pause) -> ControlError {
    let message = format!(
        "paused already, {} since {} by {:?}: {:?}; resume it first to pause otherwise",
        pause.mode.as_str(),
        pause.created_at,
        pause.actor,
        pause.reason
    );
    ControlError::of_pause(ErrorCode::AlreadyPaused, &pause.id, message)
}

fn contended() -> ControlError {
    let message = "others pause and resume the same at this moment; ask again";
    ControlError::new(ErrorCode::Unavailable, message)
}

/// Resumes. Where the pause is named and the same request has ended it before, the answer is that
/// pause.
///
/// # Errors
/// `not_paused`, or `pause_changed` where another pause than the one named is active.
pub async fn resume<S: PauseStore>(
    store: &S,
    request: ResumeRequest,
    now: UtcMicros,
) -> Result<ResumeReply, ControlError> {
    let scope = scope_of(request.scope, request.organization_id.as_ref())?;
    let by = Change { actor: request.actor, reason: request.reason, at: now };
    let named = request.pause_id.as_deref();
    if let Some(id) = named {
        is_storable(id)?;
    }
    for _ in 0..ROUNDS_MAX {
        let active = store.active_pause(&scope).await?;
        if let Some(active) = &active
            && named.is_none_or(|id| id == active.id)
        {
            match store.release_pause(&active.id, &by).await? {
                Some(pause) => return Ok(released(pause)),
                // Ended by somebody between the two.
                None => continue,
            }
        }
        if let Some(id) = named
            && let Some(pause) = store.pause(id).await?
            && pause.scope == scope
            && pause.released.as_ref().is_some_and(|end| is_by(end, &by))
        {
            return Ok(ResumeReply { released: false, pause: pause.into() });
        }
        return Err(match active {
            None => ControlError::new(ErrorCode::NotPaused, "nothing is paused there"),
            Some(active) => {
                let message = format!(
                    "another pause than the one named is active, since {} by {:?}: {:?}",
                    active.created_at, active.actor, active.reason
                );
                ControlError::of_pause(ErrorCode::PauseChanged, &active.id, message)
            }
        });
    }
    Err(contended())
}

/// An id that no database can hold is none of a pause.
fn is_storable(id: &str) -> Result<(), ControlError> {
    if id.is_empty() || id.contains('\0') || id.len() > ID_BYTES_MAX {
        let what = "is no id of a pause";
        return Err(ControlError::of_field(ErrorCode::InvalidField, "pause_id", what));
    }
    Ok(())
}

fn is_by(end: &Released, by: &Change) -> bool {
    end.by.as_deref() == Some(by.actor.as_str())
        && end.reason.as_deref() == Some(by.reason.as_str())
}

fn released(pause: Pause) -> ResumeReply {
    let end = pause.released.as_ref();
    tracing::warn!(
        pause_id = pause.id,
        scope = pause.scope.as_str(),
        organization_id = %pause.scope.organization(),
        actor = end.and_then(|end| end.by.as_deref()),
        reason = end.and_then(|end| end.reason.as_deref()),
        "resumed: new wakes are decided again"
    );
    ResumeReply { released: true, pause: pause.into() }
}

/// The active pauses, a page of them: the platform's, and as many organizations as are asked for.
///
/// # Errors
/// The database does not answer.
pub async fn pauses<S: PauseStore>(
    store: &S,
    request: &PausesRequest,
) -> Result<PausesReply, ControlError> {
    let platform = match request.after {
        None => store.active_pause(&PauseScope::Platform).await?,
        Some(_) => None,
    };
    // The platform's is one more than was asked for, so that a page ends with an organization.
    let shown = request.limit + u32::from(platform.is_some());
    // One more than is shown says whether there are more.
    let organizations =
        store.paused_organizations(request.after.as_ref(), request.limit + 1).await?;
    let found: Vec<PauseDocument> =
        platform.into_iter().chain(organizations).map(Into::into).collect();
    let page = within_bytes(found, shown);
    let next = page.more.then(|| page.rows.last()?.organization_id.clone()).flatten();
    Ok(PausesReply { pauses: page.rows, next })
}
