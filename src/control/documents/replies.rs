//! What is answered.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{AgentKey, Mode, Scope, Status};
use crate::health::ComponentState;
use crate::store::control::{Agent, Pause, PauseScope, Released};
use crate::wake::{AgentId, OrganizationId, UtcMicros};

/// Most bytes of a text in a row; what wakegate itself writes is shorter.
const TEXT_BYTES_MAX: usize = 4_096;

/// A pause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PauseDocument {
    /// Its id, which refusals name.
    pub id: String,
    /// Of what.
    pub scope: Scope,
    /// Of which organization; absent for the platform's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub organization_id: Option<OrganizationId>,
    /// How.
    pub mode: Mode,
    /// By whom.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// Since when.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_at: UtcMicros,
    /// Its end, if it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released: Option<ReleasedDocument>,
}

/// The end of a pause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReleasedDocument {
    /// When.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: UtcMicros,
    /// By whom, if they said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Why, if they said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The reply to `pause`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PauseReply {
    /// Whether this request made it; false where the same request had made it before.
    pub created: bool,
    /// The pause that is active now.
    pub pause: PauseDocument,
}

/// The reply to `resume`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ResumeReply {
    /// Whether this request ended it; false where the same request had ended it before.
    pub released: bool,
    /// The pause that has ended.
    pub pause: PauseDocument,
}

/// The reply to `pauses`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PausesReply {
    /// The active pauses.
    pub pauses: Vec<PauseDocument>,
    /// There are more, behind this one: `after` of the next request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub next: Option<OrganizationId>,
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AgentDocument {
    /// Its organization.
    #[schemars(with = "String")]
    pub organization_id: OrganizationId,
    /// Which.
    #[schemars(with = "String")]
    pub agent_profile_id: AgentId,
    /// Its status.
    pub status: Status,
    /// Who set it, if they said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Why, if they said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub updated_at: UtcMicros,
}

/// The reply to `agent.set` and `agent.get`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AgentReply {
    /// The agent as it is now.
    pub agent: AgentDocument,
}

/// The reply to `agent.list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AgentListReply {
    /// The agents.
    pub agents: Vec<AgentDocument>,
    /// There are more, behind this one: `after` of the next request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<AgentKey>,
}

/// The reply to `counts`. A count that the database did not answer in time is left out, and named.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct CountsReply {
    /// Runs that wait to be claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_runs: Option<u64>,
    /// Known agents, by status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<BTreeMap<String, u64>>,
    /// Active pauses, by scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pauses: Option<BTreeMap<String, u64>>,
    /// Refused wakes, by reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusals: Option<Refusals>,
    /// What could not be counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unanswered: Vec<Unanswered>,
}

/// Refused wakes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Refusals {
    /// Of wakes that were requested since then.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: UtcMicros,
    /// How many, by reason.
    pub by_reason: BTreeMap<String, u64>,
}

/// A count that there is no answer for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Unanswered {
    /// The name of its field.
    pub count: String,
    /// Why there is none.
    pub error: String,
}

/// The reply to `health`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HealthReply {
    /// The worker that answers.
    pub worker: WorkerDocument,
    /// Whether it does its part.
    pub ready: bool,
    /// Whether it is ending.
    pub shutting_down: bool,
    /// The gates that are in shadow, and refuse nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates_in_shadow: Vec<&'static str>,
    /// Each component that is not a lane, by name.
    pub components: BTreeMap<String, ComponentDocument>,
    /// Each lane.
    pub lanes: Vec<LaneDocument>,
}

/// A worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkerDocument {
    /// Its id as a NATS service; another at each start.
    pub id: String,
    /// The machine that it runs on, as that calls itself.
    pub host: String,
    /// Its process there.
    pub process: u32,
    /// Its version.
    pub version: String,
    /// When it started.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub started_at: UtcMicros,
}

/// How a component does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ComponentDocument {
    /// `ok`, `waiting`, `failed` or `standby`.
    #[schemars(with = "String")]
    pub state: ComponentState,
    /// Since when.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: UtcMicros,
    /// Why it is not ok, or what an operator must learn although it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a lane does, as this worker sees it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LaneDocument {
    /// Which.
    pub lane: u32,
    /// Whether this worker has it.
    pub owned: bool,
    /// How it does.
    #[serde(flatten)]
    pub component: ComponentDocument,
    /// Messages still to be received or acknowledged; of a lane that this worker has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<u64>,
    /// How long the oldest of them has been waiting, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_pending_seconds: Option<f64>,
}

/// The reply to `configuration`. Secrets are shown as `***`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConfigurationReply {
    /// The worker that answers.
    pub worker: WorkerDocument,
    /// Every setting.
    pub settings: Vec<SettingDocument>,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SettingDocument {
    /// `section.key`.
    pub name: String,
    /// Its value in TOML; absent where it is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: String,
}

impl From<Pause> for PauseDocument {
    fn from(pause: Pause) -> Self {
        let (scope, organization_id) = match pause.scope {
            PauseScope::Platform => (Scope::Platform, None),
            PauseScope::Organization(organization) => (Scope::Organization, Some(organization)),
        };
        Self {
            id: pause.id,
            scope,
            organization_id,
            mode: pause.mode.into(),
            actor: cut(pause.actor),
            reason: cut(pause.reason),
            created_at: pause.created_at,
            released: pause.released.map(|Released { at, by, reason }| ReleasedDocument {
                at,
                actor: by.map(cut),
                reason: reason.map(cut),
            }),
        }
    }
}

impl From<Agent> for AgentDocument {
    fn from(agent: Agent) -> Self {
        let (organization_id, agent_profile_id) = agent.id;
        Self {
            organization_id,
            agent_profile_id,
            status: agent.status.into(),
            actor: agent.actor.map(cut),
            reason: agent.reason.map(cut),
            updated_at: agent.updated_at,
        }
    }
}

/// Others write rows too, and a reply has to fit into a message.
fn cut(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push('…');
    }
    text
}
