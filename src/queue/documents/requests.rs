//! What is asked.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use uuid::Uuid;

use super::{Ending, LEASE_SECONDS_MAX, ORGANIZATIONS_MAX, RUNS_MAX, WAIT_SECONDS_MAX};
use crate::control::body::{parsed, parsed_if_any};
use crate::control::documents::Scope;
use crate::control::documents::organization;
use crate::control::documents::requests::{operator, organization_if_any, why, within};
use crate::store::control::{Operator, Why};
use crate::wake::{ActorId, OrganizationId, RunId, RunnerId};

/// `claim`: runs, to be run. Answered as soon as there is one, with as many as there are then.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    /// Who will run them. At most 256 bytes.
    #[serde(deserialize_with = "runner_id")]
    #[schemars(with = "String", length(min = 1, max = 256))]
    pub runner_id: RunnerId,
    /// A UUID, new for each claim: the same request again, because its answer was lost, is given the
    /// runs that it was given then, as long as one of them is neither started nor returned.
    #[serde(default, deserialize_with = "claim_id")]
    #[schemars(with = "Option<String>", extend("format" = "uuid"))]
    pub claim_id: Option<Uuid>,
    /// At most so many.
    #[serde(default = "one", deserialize_with = "runs_max")]
    #[schemars(range(min = 1, max = 100))]
    pub runs_max: u32,
    /// Of these organizations only; absent or empty means of any. `""` is the organization of events
    /// that name none.
    #[serde(default, deserialize_with = "organizations")]
    #[schemars(with = "Vec<String>", length(max = 64))]
    pub organizations: Vec<OrganizationId>,
    /// How long to wait for work; 0 is answered at once.
    #[serde(default, deserialize_with = "wait_seconds")]
    #[schemars(range(max = 300))]
    pub wait_seconds: u32,
    /// For how long the runs are the runner's without a heartbeat; absent means
    /// `queue.lease_seconds`.
    #[serde(default, deserialize_with = "lease_seconds")]
    #[schemars(range(min = 1, max = 3600))]
    pub lease_seconds: Option<u32>,
}

/// `start`: the run begins. From now on it is never given to anybody again.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRequest {
    /// Which.
    #[serde(deserialize_with = "run_id")]
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub run_id: RunId,
    /// As the claim was answered.
    pub fencing_token: u64,
    /// As for a claim.
    #[serde(default, deserialize_with = "lease_seconds")]
    #[schemars(range(min = 1, max = 3600))]
    pub lease_seconds: Option<u32>,
}

/// `heartbeat`: the run, claimed or started, goes on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatRequest {
    /// Which.
    #[serde(deserialize_with = "run_id")]
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub run_id: RunId,
    /// As the claim was answered.
    pub fencing_token: u64,
    /// As for a claim.
    #[serde(default, deserialize_with = "lease_seconds")]
    #[schemars(range(min = 1, max = 3600))]
    pub lease_seconds: Option<u32>,
}

/// `finish`: the run has ended.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FinishRequest {
    /// Which.
    #[serde(deserialize_with = "run_id")]
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub run_id: RunId,
    /// As the claim was answered.
    pub fencing_token: u64,
    /// How.
    pub status: Ending,
    /// Why, in a word or a sentence; it is kept. At most 1,024 bytes.
    #[serde(default, deserialize_with = "why_if_any")]
    #[schemars(with = "Option<String>", length(min = 1, max = 1024))]
    pub reason: Option<Why>,
}

/// `withdraw`: whoever asked for a run does not want it any more. A queued run only.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WithdrawRequest {
    /// Which.
    #[serde(deserialize_with = "run_id")]
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub run_id: RunId,
    /// Its organization. At most 256 bytes.
    #[serde(deserialize_with = "organization")]
    #[schemars(with = "String", length(max = 256))]
    pub organization_id: OrganizationId,
    /// Who: the run's `actor_id`. At most 256 bytes.
    #[serde(deserialize_with = "actor_id")]
    #[schemars(with = "String", length(min = 1, max = 256))]
    pub actor: ActorId,
    /// Why. At most 1,024 bytes.
    #[serde(deserialize_with = "why")]
    #[schemars(with = "String", length(min = 1, max = 1024))]
    pub reason: Why,
}

/// `cancel`: a queued run is not to run, a run that is claimed or runs is to end.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    /// Which.
    #[serde(deserialize_with = "run_id")]
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub run_id: RunId,
    /// Whose runs may be meant: everybody's, or those of `organization_id`.
    pub scope: Scope,
    /// With scope `organization`: which. At most 256 bytes.
    #[serde(default, deserialize_with = "organization_if_any")]
    #[schemars(with = "Option<String>", length(max = 256))]
    pub organization_id: Option<OrganizationId>,
    /// Who cancels. At most 256 bytes.
    #[serde(deserialize_with = "operator")]
    #[schemars(with = "String", length(min = 1, max = 256))]
    pub actor: Operator,
    /// Why. At most 1,024 bytes.
    #[serde(deserialize_with = "why")]
    #[schemars(with = "String", length(min = 1, max = 1024))]
    pub reason: Why,
}

fn one() -> u32 {
    1
}

fn runs_max<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, 1..=RUNS_MAX)
}

fn wait_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, 0..=WAIT_SECONDS_MAX)
}

fn lease_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let number: Option<u64> = Deserialize::deserialize(deserializer)?;
    let Some(number) = number else { return Ok(None) };
    let fits = u32::try_from(number).ok().filter(|n| (1..=LEASE_SECONDS_MAX).contains(n));
    fits.map(Some)
        .ok_or_else(|| serde::de::Error::custom(format!("1 to {LEASE_SECONDS_MAX} are accepted")))
}

fn organizations<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<OrganizationId>, D::Error> {
    let ids: Vec<String> = Deserialize::deserialize(deserializer)?;
    if ids.len() > ORGANIZATIONS_MAX {
        let what = format!("at most {ORGANIZATIONS_MAX} are accepted");
        return Err(serde::de::Error::custom(what));
    }
    let parsed = ids.iter().map(|id| OrganizationId::parse(id));
    parsed.collect::<Result<_, _>>().map_err(serde::de::Error::custom)
}

fn run_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RunId, D::Error> {
    parsed(deserializer, |text| {
        Uuid::try_parse(text).map(RunId::from).map_err(|_| "is no id of a run")
    })
}

fn claim_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Uuid>, D::Error> {
    parsed_if_any(deserializer, |text| Uuid::try_parse(text).map_err(|_| "is no UUID"))
}

fn runner_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RunnerId, D::Error> {
    parsed(deserializer, RunnerId::parse)
}

fn actor_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ActorId, D::Error> {
    parsed(deserializer, ActorId::parse)
}

fn why_if_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Why>, D::Error> {
    parsed_if_any(deserializer, Why::parse)
}
