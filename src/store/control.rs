//! What operators ask and change: one trait a concern, so that what is added later is added beside.
//!
//! These are reached over connections of their own: open a store with few connections and give it to
//! the control path, never the one that the lanes use.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::StoreError;
use super::limits::LimitStore;
use crate::admission::facts::{AgentStatus, Scoped};
use crate::wake::{AgentId, ID_BYTES_MAX, IdFault, OrganizationId, UtcMicros};

/// Most bytes of the reason that an operator gives.
pub const WHY_BYTES_MAX: usize = 1_024;

/// A text that a person gives: neither blank nor too long, and without NUL.
fn given(text: &str, bytes_max: usize) -> Result<Arc<str>, IdFault> {
    if text.trim().is_empty() {
        return Err(IdFault::Empty);
    }
    if text.len() > bytes_max {
        return Err(IdFault::TooLong { bytes: text.len(), bytes_max });
    }
    if text.contains('\0') {
        return Err(IdFault::Nul);
    }
    Ok(Arc::from(text))
}

macro_rules! given {
    ($(#[$doc:meta])* $name:ident, $bytes_max:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks that it says something and is not too long.
            ///
            /// # Errors
            /// [`IdFault`] names what is wrong with it.
            pub fn parse(text: &str) -> Result<Self, IdFault> {
                given(text, $bytes_max).map(Self)
            }

            /// As it was given.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// For whoever has to keep it.
            #[must_use]
            pub fn shared(&self) -> Arc<str> {
                Arc::clone(&self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    };
}

given!(
    /// Who changes something, as they say.
    Operator, ID_BYTES_MAX
);
given!(
    /// Why they do.
    Why, WHY_BYTES_MAX
);

/// A change, with who made it, why and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Who.
    pub actor: Operator,
    /// Why.
    pub reason: Why,
    /// When.
    pub at: UtcMicros,
}

/// What a pause pauses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PauseScope {
    /// Everything.
    Platform,
    /// One organization, the one without a name included.
    Organization(OrganizationId),
}

impl PauseScope {
    /// As the column says it.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Platform => "platform",
            Self::Organization(_) => "organization",
        }
    }

    /// The organization; that of the platform is `""`, as in the table.
    #[must_use]
    pub fn organization(&self) -> OrganizationId {
        match self {
            Self::Platform => OrganizationId::none(),
            Self::Organization(organization) => organization.clone(),
        }
    }

    /// From the two columns.
    pub(super) fn of(scope: &str, organization: &str) -> Option<Self> {
        match scope {
            "platform" => Some(Self::Platform),
            "organization" => OrganizationId::parse(organization).ok().map(Self::Organization),
            _ => None,
        }
    }
}

/// What becomes of runs that are there already; both refuse new wakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PauseMode {
    /// They go on.
    #[default]
    Drain,
    /// They are cancelled, and their runners are told.
    StopNow,
}

impl PauseMode {
    /// Every mode.
    pub const ALL: [Self; 2] = [Self::Drain, Self::StopNow];

    /// As the column says it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::StopNow => "stop_now",
        }
    }

    /// The mode with this name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }
}

/// A pause to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPause {
    /// Of what.
    pub scope: PauseScope,
    /// How.
    pub mode: PauseMode,
    /// By whom, why and when.
    pub by: Change,
}

/// A row of `pauses`. Rows may be written by others, so their texts are what they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// Its id.
    pub id: String,
    /// Of what.
    pub scope: PauseScope,
    /// How.
    pub mode: PauseMode,
    /// By whom.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// Since when.
    pub created_at: UtcMicros,
    /// Its end, if it has ended.
    pub released: Option<Released>,
}

/// The end of a pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Released {
    /// When.
    pub at: UtcMicros,
    /// By whom, if they said.
    pub by: Option<String>,
    /// Why, if they said.
    pub reason: Option<String>,
}

/// A row of `agents`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Which.
    pub id: Scoped<AgentId>,
    /// Its status.
    pub status: AgentStatus,
    /// Who set it, if they said.
    pub actor: Option<String>,
    /// Why, if they said.
    pub reason: Option<String>,
    /// When.
    pub updated_at: UtcMicros,
}

/// Which agents to list, by organization and id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentQuery {
    /// Of one organization only.
    pub organization_id: Option<OrganizationId>,
    /// With this status only.
    pub status: Option<AgentStatus>,
    /// Behind this one.
    pub after: Option<Scoped<AgentId>>,
    /// At most so many.
    pub agents_max: u32,
}

/// Pauses. What is made and released here is read by gate 2 at the next batch.
pub trait PauseStore: Clone + Send + Sync + 'static {
    /// Makes a pause; nothing where its scope has an active one already.
    fn insert_pause(
        &self,
        pause: &NewPause,
    ) -> impl Future<Output = Result<Option<Pause>, StoreError>> + Send;

    /// Ends a pause, by its id; nothing where no such pause is active.
    fn release_pause(
        &self,
        id: &str,
        by: &Change,
    ) -> impl Future<Output = Result<Option<Pause>, StoreError>> + Send;

    /// The pause with this id, active or not.
    fn pause(&self, id: &str) -> impl Future<Output = Result<Option<Pause>, StoreError>> + Send;

    /// The active pause of a scope.
    fn active_pause(
        &self,
        scope: &PauseScope,
    ) -> impl Future<Output = Result<Option<Pause>, StoreError>> + Send;

    /// The active pauses of organizations in order of their ids, behind one of them.
    fn paused_organizations(
        &self,
        after: Option<&OrganizationId>,
        pauses_max: u32,
    ) -> impl Future<Output = Result<Vec<Pause>, StoreError>> + Send;
}

/// Agents. What is set here is read by gate 1 at the next batch.
pub trait AgentStore: Clone + Send + Sync + 'static {
    /// Sets an agent's status, whether it is known or not.
    fn set_agent(
        &self,
        agent: &Scoped<AgentId>,
        status: AgentStatus,
        by: &Change,
    ) -> impl Future<Output = Result<Agent, StoreError>> + Send;

    /// One agent; nothing where it is not known, and may run.
    fn agent(
        &self,
        agent: &Scoped<AgentId>,
    ) -> impl Future<Output = Result<Option<Agent>, StoreError>> + Send;

    /// Agents in order of organization and id.
    fn agents(
        &self,
        query: &AgentQuery,
    ) -> impl Future<Output = Result<Vec<Agent>, StoreError>> + Send;
}

/// Counts over whole tables: each takes as long as it takes, within the store's deadline.
pub trait CountStore: Clone + Send + Sync + 'static {
    /// Runs that wait to be claimed.
    fn queued_runs(&self) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Refusals of wakes that were requested at or after an instant, by reason.
    fn refusals_since(
        &self,
        since: UtcMicros,
    ) -> impl Future<Output = Result<Vec<(String, u64)>, StoreError>> + Send;

    /// Active pauses, by scope.
    fn pauses_by_scope(
        &self,
    ) -> impl Future<Output = Result<Vec<(String, u64)>, StoreError>> + Send;

    /// Known agents, by status.
    fn agents_by_status(
        &self,
    ) -> impl Future<Output = Result<Vec<(String, u64)>, StoreError>> + Send;
}

/// Everything that the service over NATS asks.
pub trait ControlStore: PauseStore + AgentStore + CountStore + LimitStore {}

impl<S: PauseStore + AgentStore + CountStore + LimitStore> ControlStore for S {}

/// A row that this program cannot read, which a later one may have written.
pub(super) fn unknown(what: &str) -> StoreError {
    StoreError::Unavailable { error: format!("{what} that this program does not know") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_and_why_say_something_and_are_bounded() {
        for (text, fault) in [
            ("", Some(IdFault::Empty)),
            (" \t\n", Some(IdFault::Empty)),
            ("a\0b", Some(IdFault::Nul)),
            ("ann", None),
            ("\u{202e}x\n", None),
        ] {
            assert_eq!(Operator::parse(text).err(), fault, "{text:?}");
            assert_eq!(Why::parse(text).err(), fault, "{text:?}");
        }
        assert!(Operator::parse(&"a".repeat(256)).is_ok());
        assert!(Operator::parse(&"a".repeat(257)).is_err());
        assert!(Why::parse(&"é".repeat(512)).is_ok());
        assert!(Why::parse(&"é".repeat(513)).is_err());
    }
}
