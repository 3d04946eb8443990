//! Producers: who published, by the first free token of the subject.

use std::fmt;
use std::sync::Arc;

use super::{ID_BYTES_MAX, IdFault, checked};

/// The producer token of an intake subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Producer {
    token: Arc<str>,
    class: ProducerClass,
}

/// The closed set that producers count under (`wakegate_wakes_total`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProducerClass {
    /// The mutation path: the only producer that may carry an agent actor
    /// (AC-OFFICE-ASSIGN-RATE-001.12).
    TaskMutation,
    /// The task-lifecycle subscriber.
    TaskLifecycle,
    /// Onboarding.
    Onboarding,
    /// The sweep over unstarted tasks.
    RecoverySweep,
    /// A workflow's auto-start step.
    WorkflowAutoStart,
    /// Any other token: accepted.
    Other,
}

impl ProducerClass {
    /// Every class, in the contract's order.
    pub const ALL: [Self; 6] = [
        Self::TaskMutation,
        Self::TaskLifecycle,
        Self::Onboarding,
        Self::RecoverySweep,
        Self::WorkflowAutoStart,
        Self::Other,
    ];

    /// The metric label, which for a known producer is also its subject token.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TaskMutation => "task_mutation",
            Self::TaskLifecycle => "task_lifecycle",
            Self::Onboarding => "onboarding",
            Self::RecoverySweep => "recovery_sweep",
            Self::WorkflowAutoStart => "workflow_auto_start",
            Self::Other => "other",
        }
    }

    /// Whether an agent actor from here keeps the contract.
    #[must_use]
    pub const fn may_carry_agent_actor(self) -> bool {
        matches!(self, Self::TaskMutation)
    }
}

impl Producer {
    /// Any token, within the limit for ids.
    ///
    /// # Errors
    /// [`IdFault`] when the token is too long or holds a NUL.
    pub fn parse(token: &str) -> Result<Self, IdFault> {
        checked(token, ID_BYTES_MAX).map(Self::of)
    }

    /// The token as far as it can be kept: for the envelope of an event that is rejected for it.
    #[must_use]
    pub fn shortened(token: &str) -> Self {
        let kept = token[..token.floor_char_boundary(ID_BYTES_MAX)].replace('\0', "");
        Self::of(Arc::from(kept))
    }

    fn of(token: Arc<str>) -> Self {
        // The token `other` is itself no known producer.
        let class = ProducerClass::ALL
            .into_iter()
            .find(|class| class.as_str() == &*token)
            .unwrap_or(ProducerClass::Other);
        Self { token, class }
    }

    /// The token as published.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.token
    }

    /// The token for whoever has to keep it.
    #[must_use]
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.token)
    }

    /// The class to count it under.
    #[must_use]
    pub fn class(&self) -> ProducerClass {
        self.class
    }
}

impl fmt::Display for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.token)
    }
}

impl serde::Serialize for Producer {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.token)
    }
}
