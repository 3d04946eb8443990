//! What is asked of the queue.

use uuid::Uuid;

use crate::store::control::{Operator, Why};
use crate::wake::{ActorId, OrganizationId, RunId, RunnerId, UtcMicros};

/// Most organizations that one claim may be limited to: each is looked up by itself.
pub const CLAIM_ORGANIZATIONS_MAX: usize = 64;
/// Most runs that one claim ends as expired on its way to those it takes.
pub const EXPIRED_BY_CLAIM_MAX: u32 = 100;

/// Asks for runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// Names this request, so that it can be repeated when its answer is lost: new for each.
    pub claim_id: Uuid,
    /// For whom.
    pub runner: RunnerId,
    /// At most so many.
    pub runs_max: u32,
    /// Of these organizations only, of all where there are none. At most
    /// [`CLAIM_ORGANIZATIONS_MAX`] are looked at.
    pub organizations: Vec<OrganizationId>,
    /// Until when they are to be started.
    pub lease_until: UtcMicros,
    /// The present instant.
    pub now: UtcMicros,
    /// Most runs under way on the platform; 0 is none.
    pub platform_active_max: u32,
    /// Most runs under way in each organization, where it has not set fewer itself; 0 is none.
    pub organization_active_max: u32,
}

/// A run as somebody holds it: the token is good for the claim it came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Held {
    /// The run.
    pub run_id: RunId,
    /// The claim.
    pub fencing_token: u64,
}

/// How a runner ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunEnd {
    /// It did what it was for.
    Succeeded,
    /// It did not.
    Failed,
    /// It was stopped.
    Cancelled,
}

impl RunEnd {
    /// Every end.
    pub const ALL: [Self; 3] = [Self::Succeeded, Self::Failed, Self::Cancelled];

    /// As the column says it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Ends a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishRequest {
    /// Which.
    pub held: Held,
    /// How.
    pub end: RunEnd,
    /// Why, where there is something to say.
    pub reason: Option<Why>,
    /// The present instant.
    pub now: UtcMicros,
}

/// Whose right to cancel is made use of: what lies outside is not found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CancelScope {
    /// Who asked for the run, as its payload says; as long as it is queued.
    Initiator(OrganizationId, ActorId),
    /// Whoever speaks for the organization.
    Organization(OrganizationId),
    /// Whoever speaks for the platform.
    Platform,
}

/// Cancels a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelRequest {
    /// Which.
    pub run_id: RunId,
    /// By which right.
    pub scope: CancelScope,
    /// Who, as they say.
    pub actor: Operator,
    /// Why.
    pub reason: Why,
    /// The present instant.
    pub now: UtcMicros,
}
