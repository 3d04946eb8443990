//! Requests and replies of runners as JSON. `docs/schemas/runs-*.json` is made of these types.
//!
//! Ids travel here, never in a subject; only an organization's token may stand there too, and then
//! the body is held to it.

mod events;
mod replies;
mod requests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::events::RunEventDocument;
pub use self::replies::{
    CancelReply, CancelState, CancellationDocument, ClaimReply, ClaimedRunDocument, FinishReply,
    HeartbeatReply, StartReply, WithdrawReply,
};
pub use self::requests::{
    CancelRequest, ClaimRequest, FinishRequest, HeartbeatRequest, StartRequest, WithdrawRequest,
};
use crate::store::queue::RunEnd;

/// Most runs of one claim.
pub const RUNS_MAX: u32 = 100;
/// Most organizations that a claim may name.
pub const ORGANIZATIONS_MAX: usize = 64;
/// Longest that a claim may wait for work; `queue.wait_seconds_max` may be less.
pub const WAIT_SECONDS_MAX: u32 = 300;
/// Longest lease.
pub const LEASE_SECONDS_MAX: u32 = 3_600;

/// How a run has ended, as its runner says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It did what it was for.
    Succeeded,
    /// It did not.
    Failed,
    /// It was ended on request.
    Cancelled,
}

impl From<Ending> for RunEnd {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Succeeded => Self::Succeeded,
            Ending::Failed => Self::Failed,
            Ending::Cancelled => Self::Cancelled,
        }
    }
}
