//! Limits: what is asked and what is answered.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::organization;
use super::requests::{operator, organization_if_any, why};
use crate::admission::limits::Dimension;
use crate::control::body::parsed_if_any;
use crate::store::control::{Operator, Why};
use crate::wake::{OrganizationId, ProjectId, UtcMicros};

/// `limits.get`: what is in force, where it comes from, and how much of it is used now.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsGetRequest {
    /// Of this organization; `""` is the organization of events that name none. Without it, the
    /// platform's. At most 256 bytes.
    #[serde(default, deserialize_with = "organization_if_any")]
    #[schemars(with = "Option<String>", length(max = 256))]
    pub organization_id: Option<OrganizationId>,
    /// With the use of this project of it. At most 256 bytes.
    #[serde(default, deserialize_with = "project_if_any")]
    #[schemars(with = "Option<String>", length(min = 1, max = 256))]
    pub project_id: Option<ProjectId>,
}

/// `limits.set`: gate 6 and claims go by it from the next batch and the next claim on. What is not
/// named stays; null leaves the platform's; 0 is none. What is over the platform's is as good as
/// null.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = without_defaults)]
pub struct LimitsSetRequest {
    /// Whose; `""` is the organization of events that name none. At most 256 bytes.
    #[serde(deserialize_with = "organization")]
    #[schemars(with = "String", length(max = 256))]
    pub organization_id: OrganizationId,
    /// Most runs of it that wait.
    #[serde(default, deserialize_with = "named")]
    #[schemars(with = "Option<u32>")]
    pub queued_runs_max: Option<Option<u32>>,
    /// Most runs of one of its projects that wait.
    #[serde(default, deserialize_with = "named")]
    #[schemars(with = "Option<u32>")]
    pub queued_runs_project_max: Option<Option<u32>>,
    /// How long a run of it may wait, in seconds.
    #[serde(default, deserialize_with = "named")]
    #[schemars(with = "Option<u32>")]
    pub waiting_seconds_max: Option<Option<u32>>,
    /// Most runs of it that are claimed or running.
    #[serde(default, deserialize_with = "named")]
    #[schemars(with = "Option<u32>")]
    pub active_runs_max: Option<Option<u32>>,
    /// Most runs that the events of one producer may make in it in a minute.
    #[serde(default, deserialize_with = "named")]
    #[schemars(with = "Option<u32>")]
    pub intake_events_per_minute_max: Option<Option<u32>>,
    /// Most bytes of one event's body.
    #[serde(default, deserialize_with = "named")]
    #[schemars(with = "Option<u32>")]
    pub event_bytes_max: Option<Option<u32>>,
    /// Its part of the slots beside other organizations' parts; null is 1.
    #[serde(default, deserialize_with = "weight")]
    #[schemars(with = "Option<u32>", range(min = 1, max = 1000))]
    pub weight: Option<Option<u32>>,
    /// Who sets it. At most 256 bytes.
    #[serde(deserialize_with = "operator")]
    #[schemars(with = "String", length(min = 1, max = 256))]
    pub actor: Operator,
    /// Why. At most 1,024 bytes.
    #[serde(deserialize_with = "why")]
    #[schemars(with = "String", length(min = 1, max = 1024))]
    pub reason: Why,
}

impl LimitsSetRequest {
    /// Those that it names.
    #[must_use]
    pub fn limits(&self) -> Vec<(Dimension, Option<u32>)> {
        [
            (Dimension::QueuedOrganization, self.queued_runs_max),
            (Dimension::QueuedProject, self.queued_runs_project_max),
            (Dimension::Waiting, self.waiting_seconds_max),
            (Dimension::ActiveOrganization, self.active_runs_max),
            (Dimension::Intake, self.intake_events_per_minute_max),
            (Dimension::EventBytes, self.event_bytes_max),
        ]
        .into_iter()
        .filter_map(|(dimension, limit)| Some((dimension, limit?)))
        .collect()
    }
}

/// What is left out is left as it is: null, which the derived schema calls the default, is not that.
fn without_defaults(schema: &mut Schema) {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(|properties| properties.values_mut()) {
        if let Some(property) = property.as_object_mut() {
            property.remove("default");
        }
    }
}

fn project_if_any<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ProjectId>, D::Error> {
    parsed_if_any(deserializer, ProjectId::parse)
}

/// A field that is there, null included.
#[expect(clippy::option_option, reason = "absent and null mean different things here")]
fn named<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u32>>, D::Error> {
    Option::<u32>::deserialize(deserializer).map(Some)
}

#[expect(clippy::option_option, reason = "absent and null mean different things here")]
fn weight<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u32>>, D::Error> {
    let weight = Option::<u32>::deserialize(deserializer)?;
    if weight.is_some_and(|weight| !(1..=1_000).contains(&weight)) {
        return Err(serde::de::Error::custom("wants 1 to 1000"));
    }
    Ok(Some(weight))
}

/// The reply to `limits.get` and `limits.set`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LimitsReply {
    /// `development` or `production`.
    #[schemars(with = "String")]
    pub mode: &'static str,
    /// What the platform's set of ceilings is called, where it has a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether admission goes by them.
    pub enforced: bool,
    /// Whose limits; absent for the platform's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub organization_id: Option<OrganizationId>,
    /// Each limit.
    pub limits: Vec<LimitDocument>,
    /// What the organization has set of its own, if it ever has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own: Option<OwnLimits>,
}

/// One limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LimitDocument {
    /// Which; overloads name it as `boundary`.
    #[schemars(with = "String")]
    pub name: &'static str,
    /// What it is counted in.
    #[schemars(with = "String")]
    pub unit: &'static str,
    /// Most that is allowed: the lesser of both layers. 0 is none.
    pub max: u32,
    /// Which layer it is from.
    pub source: LimitSource,
    /// What the platform allows.
    pub platform: u32,
    /// What the organization has set, where it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<u32>,
    /// How much is used now, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_use: Option<u64>,
}

/// Where a limit is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitSource {
    /// The configuration.
    Platform,
    /// The organization.
    Organization,
}

/// What an organization has set, beside its limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OwnLimits {
    /// Its part of the slots beside other organizations' parts.
    pub weight: u32,
    /// Who set it last, if they said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Why, if they said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub updated_at: UtcMicros,
}
