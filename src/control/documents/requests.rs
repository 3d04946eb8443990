//! What is asked.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::{
    AgentKey, LIMIT, LIMIT_MAX, Mode, REFUSALS_SECONDS, REFUSALS_SECONDS_MAX, Scope, Status,
    agent_id, organization,
};
use crate::control::body::{parsed, parsed_if_any};
use crate::store::control::{Operator, Why};
use crate::wake::{AgentId, OrganizationId};

/// `pause`: new wakes are refused from the next batch on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// What.
    pub scope: Scope,
    /// With scope `organization`: which; `""` is the organization of events that name none. At most
    /// 256 bytes.
    #[serde(default, deserialize_with = "organization_if_any")]
    #[schemars(with = "Option<String>", length(max = 256))]
    pub organization_id: Option<OrganizationId>,
    /// How.
    #[serde(default)]
    pub mode: Mode,
    /// Who pauses. At most 256 bytes.
    #[serde(deserialize_with = "operator")]
    #[schemars(with = "String", length(min = 1, max = 256))]
    pub actor: Operator,
    /// Why. At most 1,024 bytes.
    #[serde(deserialize_with = "why")]
    #[schemars(with = "String", length(min = 1, max = 1024))]
    pub reason: Why,
}

/// `resume`: new wakes are decided again from the next batch on. What was refused stays refused.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    /// What.
    pub scope: Scope,
    /// With scope `organization`: which. At most 256 bytes.
    #[serde(default, deserialize_with = "organization_if_any")]
    #[schemars(with = "Option<String>", length(max = 256))]
    pub organization_id: Option<OrganizationId>,
    /// This pause and no other: set, the request may be sent again after a time-out.
    #[serde(default)]
    #[schemars(length(min = 1, max = 256))]
    pub pause_id: Option<String>,
    /// Who resumes. At most 256 bytes.
    #[serde(deserialize_with = "operator")]
    #[schemars(with = "String", length(min = 1, max = 256))]
    pub actor: Operator,
    /// Why. At most 1,024 bytes.
    #[serde(deserialize_with = "why")]
    #[schemars(with = "String", length(min = 1, max = 1024))]
    pub reason: Why,
}

/// `pauses`: the active ones; the platform's first, then by organization.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PausesRequest {
    /// Behind this organization: `next` of the page before.
    #[serde(default, deserialize_with = "organization_if_any")]
    #[schemars(with = "Option<String>", length(max = 256))]
    pub after: Option<OrganizationId>,
    /// At most so many.
    #[serde(default = "limit", deserialize_with = "limited")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: u32,
}

/// `agent.set`: gate 1 goes by it from the next batch on. The agent need not be known.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentSetRequest {
    /// Its organization; `""` is the organization of events that name none. At most 256 bytes.
    #[serde(deserialize_with = "organization")]
    #[schemars(with = "String", length(max = 256))]
    pub organization_id: OrganizationId,
    /// Which. At most 256 bytes.
    #[serde(deserialize_with = "agent_id")]
    #[schemars(with = "String", length(min = 1, max = 256))]
    pub agent_profile_id: AgentId,
    /// To be set.
    pub status: Status,
    /// Who sets it. At most 256 bytes.
    #[serde(deserialize_with = "operator")]
    #[schemars(with = "String", length(min = 1, max = 256))]
    pub actor: Operator,
    /// Why. At most 1,024 bytes.
    #[serde(deserialize_with = "why")]
    #[schemars(with = "String", length(min = 1, max = 1024))]
    pub reason: Why,
}

/// `agent.list`: known agents by organization and id.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentListRequest {
    /// Of one organization only.
    #[serde(default, deserialize_with = "organization_if_any")]
    #[schemars(with = "Option<String>", length(max = 256))]
    pub organization_id: Option<OrganizationId>,
    /// With this status only.
    #[serde(default)]
    pub status: Option<Status>,
    /// Behind this one: `next` of the page before.
    #[serde(default)]
    pub after: Option<AgentKey>,
    /// At most so many.
    #[serde(default = "limit", deserialize_with = "limited")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: u32,
}

/// `counts`: how much there is of what.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountsRequest {
    /// How far back refusals are counted, in seconds.
    #[serde(default = "refusals_seconds", deserialize_with = "refusals_seconds_limited")]
    #[schemars(range(min = 1, max = 604_800))]
    pub refusals_seconds: u32,
}

/// `health`: what `/readyz` says, and each lane.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HealthRequest {}

/// `configuration`: what is in force, and where each value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigurationRequest {}

fn limit() -> u32 {
    LIMIT
}

fn refusals_seconds() -> u32 {
    REFUSALS_SECONDS
}

pub(crate) fn within<'de, D: Deserializer<'de>>(
    deserializer: D,
    range: std::ops::RangeInclusive<u32>,
) -> Result<u32, D::Error> {
    let number = u64::deserialize(deserializer)?;
    u32::try_from(number).ok().filter(|number| range.contains(number)).ok_or_else(|| {
        let (min, max) = range.into_inner();
        serde::de::Error::custom(format!("{min} to {max} are accepted"))
    })
}

fn limited<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, 1..=LIMIT_MAX)
}

fn refusals_seconds_limited<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, 1..=REFUSALS_SECONDS_MAX)
}

pub(crate) fn organization_if_any<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<OrganizationId>, D::Error> {
    parsed_if_any(deserializer, OrganizationId::parse)
}

pub(crate) fn operator<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Operator, D::Error> {
    parsed(deserializer, Operator::parse)
}

pub(crate) fn why<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Why, D::Error> {
    parsed(deserializer, Why::parse)
}
