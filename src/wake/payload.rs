//! The payload a runner will read, and the three fields wakegate reads from it.

use std::sync::Arc;

use super::{ActorId, ActorType, TaskId};

/// A wake's payload. The fields beside the text are read from it by [`Payload::read`] and nowhere
/// else, so what the database's columns say is what the payload says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    text: Arc<str>,
    task: TaskField,
    actor_type: Option<ActorType>,
    actor_id: Option<ActorId>,
}

/// What a payload's `task_id` says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TaskField {
    /// A non-empty JSON string that can be stored.
    Named(TaskId),
    /// Absent, null, `""`, or the payload is no JSON object.
    Absent,
    /// Present but no usable string: it never merges, and for the allowance it is unattributed.
    Unusable,
}

impl TaskField {
    /// The task, where there is one.
    #[must_use]
    pub fn task(&self) -> Option<&TaskId> {
        match self {
            Self::Named(task) => Some(task),
            Self::Absent | Self::Unusable => None,
        }
    }
}

impl Payload {
    /// The text, byte for byte as it will be stored.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What `task_id` says.
    #[must_use]
    pub fn task(&self) -> &TaskField {
        &self.task
    }

    /// What `actor_type` says, where that is a usable, non-empty string.
    #[must_use]
    pub fn actor_type(&self) -> Option<&ActorType> {
        self.actor_type.as_ref()
    }

    /// What `actor_id` says, where that is a usable, non-empty string.
    #[must_use]
    pub fn actor_id(&self) -> Option<&ActorId> {
        self.actor_id.as_ref()
    }

    /// Whether the actor type is exactly `agent` (AC-OFFICE-ASSIGN-RATE-001.1).
    #[must_use]
    pub fn is_agent_initiated(&self) -> bool {
        self.actor_type.as_ref().is_some_and(ActorType::is_agent)
    }
}
