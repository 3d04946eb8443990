//! Requests and replies as JSON. `docs/schemas/control-*.json` is made of these types.
//!
//! Ids travel here, never in a subject. An organization is always named, the one without a name as
//! `""`: to leave it out would mean another organization than was meant.

mod limits;
mod replies;
pub(crate) mod requests;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

pub use self::limits::{
    LimitDocument, LimitSource, LimitsGetRequest, LimitsReply, LimitsSetRequest, OwnLimits,
};
pub use self::replies::{
    AgentDocument, AgentListReply, AgentReply, ComponentDocument, ConfigurationReply, CountsReply,
    HealthReply, LaneDocument, PauseDocument, PauseReply, PausesReply, Refusals, ReleasedDocument,
    ResumeReply, SettingDocument, Unanswered, WorkerDocument,
};
pub use self::requests::{
    AgentListRequest, AgentSetRequest, ConfigurationRequest, CountsRequest, HealthRequest,
    PauseRequest, PausesRequest, ResumeRequest,
};
use super::body::parsed;
use crate::admission::facts::AgentStatus;
use crate::store::control::PauseMode;
use crate::wake::{AgentId, OrganizationId};

/// Rows of a list, unless the request says otherwise.
pub const LIMIT: u32 = 100;
/// Rows of a list at most.
pub const LIMIT_MAX: u32 = 1_000;
/// How far back refusals are counted, unless the request says otherwise: an hour.
pub const REFUSALS_SECONDS: u32 = 3_600;
/// How far back refusals are counted at most: as long as they are kept.
pub const REFUSALS_SECONDS_MAX: u32 = 7 * 24 * 3_600;

/// What is paused or resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Everything.
    Platform,
    /// The organization that `organization_id` names.
    Organization,
}

/// What becomes of runs that are there already; both refuse new wakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// They go on.
    #[default]
    Drain,
    /// They are cancelled, and their runners are told.
    StopNow,
}

/// The status of an agent; the last three refuse its wakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// May run.
    Idle,
    /// May run.
    Working,
    /// Refused.
    Paused,
    /// Refused.
    Stopped,
    /// Refused.
    PendingApproval,
}

/// An agent: within its organization, as everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentKey {
    /// Its organization; `""` is the organization of events that name none. At most 256 bytes.
    #[serde(deserialize_with = "organization")]
    #[schemars(with = "String", length(max = 256))]
    pub organization_id: OrganizationId,
    /// Which. At most 256 bytes.
    #[serde(deserialize_with = "agent_id")]
    #[schemars(with = "String", length(min = 1, max = 256))]
    pub agent_profile_id: AgentId,
}

pub(crate) fn organization<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<OrganizationId, D::Error> {
    parsed(deserializer, OrganizationId::parse)
}

fn agent_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<AgentId, D::Error> {
    parsed(deserializer, AgentId::parse)
}

impl From<Mode> for PauseMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Drain => Self::Drain,
            Mode::StopNow => Self::StopNow,
        }
    }
}

impl From<PauseMode> for Mode {
    fn from(mode: PauseMode) -> Self {
        match mode {
            PauseMode::Drain => Self::Drain,
            PauseMode::StopNow => Self::StopNow,
        }
    }
}

impl From<Status> for AgentStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Idle => Self::Idle,
            Status::Working => Self::Working,
            Status::Paused => Self::Paused,
            Status::Stopped => Self::Stopped,
            Status::PendingApproval => Self::PendingApproval,
        }
    }
}

impl From<AgentStatus> for Status {
    fn from(status: AgentStatus) -> Self {
        match status {
            AgentStatus::Idle => Self::Idle,
            AgentStatus::Working => Self::Working,
            AgentStatus::Paused => Self::Paused,
            AgentStatus::Stopped => Self::Stopped,
            AgentStatus::PendingApproval => Self::PendingApproval,
        }
    }
}
