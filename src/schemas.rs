//! What crosses the wire as JSON Schema: `docs/schemas` is made of these types.
//!
//! Events are read by `wake::decode`, which names every fault at once and keeps payloads as they are
//! written; the types here only say what it reads. `tests/it/schemas` holds the two together.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::outcome::OutcomeRecord;
use crate::wake::UtcMicros;

/// `task.mutated.v1`: a task changed; wakegate derives the wake. Unknown fields are ignored. Ids hold
/// at most 256 bytes of UTF-8 and no NUL.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct TaskMutated {
    /// The type of the event.
    #[serde(rename = "type")]
    #[schemars(extend("const" = "task.mutated.v1"))]
    pub kind: String,
    /// The tenant; absent, null or `""` is the organization without a name.
    #[schemars(extend("maxLength" = 256))]
    pub organization_id: Option<String>,
    /// The project.
    #[schemars(extend("maxLength" = 256))]
    pub project_id: Option<String>,
    /// The task.
    #[schemars(length(min = 1, max = 256))]
    pub task_id: String,
    /// The agent that acted; absent, null or `""` is a person or an administrative caller.
    #[schemars(extend("maxLength" = 256))]
    pub acting_agent_id: Option<String>,
    /// The agent to wake. Absent or null: the assignee did not change; `""`: nobody is assigned; in
    /// both cases nobody is woken.
    #[schemars(extend("maxLength" = 256))]
    pub new_assignee_agent_profile_id: Option<String>,
    /// Grows with each assignment of the task, in digits alone; absent or null makes the wake
    /// keyless.
    #[schemars(extend("minimum" = 0, "maximum" = i64::MAX))]
    pub assignment_generation: Option<i64>,
}

/// `wake.requested.v1`: a wake as such. Unknown fields are ignored. Ids hold at most 256 bytes of
/// UTF-8, the key 1,024, the reason 64, and none holds a NUL.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct WakeRequested {
    /// The type of the event.
    #[serde(rename = "type")]
    #[schemars(extend("const" = "wake.requested.v1"))]
    pub kind: String,
    /// The tenant; absent, null or `""` is the organization without a name.
    #[schemars(extend("maxLength" = 256))]
    pub organization_id: Option<String>,
    /// The project.
    #[schemars(extend("maxLength" = 256))]
    pub project_id: Option<String>,
    /// Why, such as `task_comment`.
    #[schemars(length(min = 1, max = 64))]
    pub reason: String,
    /// The agent to wake.
    #[schemars(length(min = 1, max = 256))]
    pub agent_profile_id: String,
    /// What identifies the occurrence; absent, null or `""` is none.
    #[schemars(extend("maxLength" = 1024))]
    pub idempotency_key: Option<String>,
    /// What the runner reads: a JSON value, or a string that holds encoded JSON; absent is `{}`.
    /// Where it is an object, its `task_id`, `actor_type` and `actor_id` hold at most 256 bytes each.
    #[serde(default)]
    pub payload: Value,
}

/// Wakes that the stream removed before they were decided: the body of `wake-audit.lost.removed.-`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LostWakes {
    /// What became of them.
    #[schemars(extend("const" = "lost"))]
    pub outcome: &'static str,
    /// Why.
    #[schemars(extend("const" = "removed"))]
    pub reason: &'static str,
    /// How many.
    pub wakes: u64,
    /// Name of the stream.
    pub stream: String,
    /// Their lane; null where that is not known.
    pub lane: Option<u32>,
    /// They were behind this sequence of the stream.
    pub after_sequence: u64,
    /// And at or before this one.
    pub up_to_sequence: u64,
    /// When it was noticed, by the worker's clock.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub noticed_at: UtcMicros,
}

impl LostWakes {
    /// As JSON.
    ///
    /// # Panics
    /// Never: a record of strings and numbers is JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a record of strings and numbers is JSON")
    }
}

/// Each schema of an event or an outcome by its name: `docs/schemas/<name>.json`. Those of control
/// are `control::verbs`'.
#[must_use]
pub fn events_and_outcomes() -> BTreeMap<&'static str, Schema> {
    BTreeMap::from([
        ("event-task-mutated-v1", asked::<TaskMutated>()),
        ("event-wake-requested-v1", asked::<WakeRequested>()),
        ("outcome", answered::<OutcomeRecord>()),
        ("outcome-lost", answered::<LostWakes>()),
    ])
}

/// The schema of a document that is read.
pub(crate) fn asked<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_deserialize().into_generator().into_root_schema_for::<T>()
}

/// The schema of a document that is written.
pub(crate) fn answered<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}
