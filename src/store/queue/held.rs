//! What a run's row says to somebody whose change of it found nothing to change. Both dialects ask
//! this, so that both answer the same.
//!
//! Nothing is answered where the row would allow the change by now: it is to be tried again.

use super::{
    CancelAnswer, CancelRequest, CancelScope, FinishAnswer, FinishRequest, HeartbeatAnswer, Held,
    NotHeld, RunStatus, StartAnswer,
};
use crate::wake::UtcMicros;

/// Attempts at a change whose row allows it whenever it is looked at: each is a race lost to somebody
/// else's change.
pub(in crate::store) const ATTEMPTS_MAX: u32 = 8;

/// What a run's row says.
pub(in crate::store) struct RunState {
    pub(in crate::store) status: RunStatus,
    pub(in crate::store) fencing_token: u64,
    pub(in crate::store) lease_expires_at: Option<UtcMicros>,
    pub(in crate::store) cancel_requested_at: Option<UtcMicros>,
    pub(in crate::store) organization_id: String,
    pub(in crate::store) actor_id: Option<String>,
}

impl RunState {
    fn lapsed(&self, now: UtcMicros) -> bool {
        self.lease_expires_at.is_some_and(|until| until <= now)
    }
}

/// The run, if the caller holds the claim it is under.
fn held<'s>(state: Option<&'s RunState>, held: &Held) -> Result<&'s RunState, NotHeld> {
    match state {
        Some(state) if state.fencing_token == held.fencing_token => Ok(state),
        state => Err(NotHeld { status: state.map(|state| state.status) }),
    }
}

pub(in crate::store) fn start(
    state: Option<&RunState>,
    by: &Held,
    now: UtcMicros,
) -> Option<StartAnswer> {
    let state = match held(state, by) {
        Ok(state) => state,
        Err(not) => return Some(StartAnswer::NotHeld(not)),
    };
    match state.status {
        RunStatus::Running => Some(StartAnswer::Started {
            // Started by somebody who took no lease: it does not lapse.
            lease_expires_at: state.lease_expires_at.unwrap_or(UtcMicros::from_micros(i64::MAX)),
        }),
        RunStatus::Claimed if state.cancel_requested_at.is_some() => Some(StartAnswer::Cancelling),
        RunStatus::Claimed if state.lapsed(now) => Some(StartAnswer::Lapsed),
        RunStatus::Claimed => None,
        status => Some(StartAnswer::NotHeld(NotHeld { status: Some(status) })),
    }
}

pub(in crate::store) fn heartbeat(
    state: Option<&RunState>,
    by: &Held,
    now: UtcMicros,
) -> Option<HeartbeatAnswer> {
    let state = match held(state, by) {
        Ok(state) => state,
        Err(not) => return Some(HeartbeatAnswer::NotHeld(not)),
    };
    match state.status {
        RunStatus::Claimed if state.lapsed(now) => Some(HeartbeatAnswer::Lapsed),
        RunStatus::Claimed | RunStatus::Running => None,
        status => Some(HeartbeatAnswer::NotHeld(NotHeld { status: Some(status) })),
    }
}

pub(in crate::store) fn finish(
    state: Option<&RunState>,
    request: &FinishRequest,
) -> Option<FinishAnswer> {
    let state = match held(state, &request.held) {
        Ok(state) => state,
        Err(not) => return Some(FinishAnswer::NotHeld(not)),
    };
    if state.status.as_str() == request.end.as_str() {
        return Some(FinishAnswer::Finished);
    }
    let may = match state.status {
        RunStatus::Running => true,
        RunStatus::Claimed => request.end != super::RunEnd::Succeeded && !state.lapsed(request.now),
        _ => false,
    };
    (!may).then_some(FinishAnswer::NotHeld(NotHeld { status: Some(state.status) }))
}

pub(in crate::store) fn cancel(
    state: Option<&RunState>,
    request: &CancelRequest,
) -> Option<CancelAnswer> {
    let within = |state: &&RunState| match &request.scope {
        CancelScope::Platform => true,
        CancelScope::Organization(organization) => state.organization_id == organization.as_str(),
        CancelScope::Initiator(organization, actor) => {
            state.organization_id == organization.as_str()
                && state.actor_id.as_deref() == Some(actor.as_str())
        }
    };
    let Some(state) = state.filter(within) else { return Some(CancelAnswer::NotFound) };
    match (state.status, state.cancel_requested_at) {
        (RunStatus::Queued, _) => None,
        (RunStatus::Claimed | RunStatus::Running, at) => match (&request.scope, at) {
            (CancelScope::Initiator(..), _) => Some(CancelAnswer::UnderWay),
            (_, Some(at)) => Some(CancelAnswer::Requested { at }),
            (_, None) => None,
        },
        (RunStatus::Cancelled, _) => Some(CancelAnswer::Cancelled),
        (status, _) => Some(CancelAnswer::Ended(status)),
    }
}
