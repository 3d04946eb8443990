//! Wakes as values: identifiers, instants and the wake itself.
//!
//! Everything here is pure. A value of one of these types has passed the contract's limits, so no
//! code behind the decoder checks a length, a NUL or an empty id again.
//!
//! Architecture Invariant: nothing in `wake` imports tokio, sqlx, async-nats or tracing.

pub mod decode;
mod fields;
mod headers;
pub mod instant;
pub mod json;
mod mutation;
pub mod payload;
pub mod producer;
pub mod requested;
mod subject;
pub mod token;

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use uuid::Uuid;

pub use self::instant::UtcMicros;
pub(crate) use self::mutation::escaped as escaped_for_key;
pub use self::payload::{Payload, TaskField};
pub use self::producer::Producer;

/// Most bytes an id may hold. PostgreSQL refuses a btree row over 2,704 bytes, and the widest
/// index holds an organization and a key (contract, "Events").
pub const ID_BYTES_MAX: usize = 256;
/// Most bytes of an idempotency key that a publisher may choose.
pub const KEY_BYTES_MAX: usize = 1_024;
/// Most bytes of a key derived from a mutation: two ids in which every byte is escaped to three,
/// the prefix, the separators and 19 digits. Such a key is never refused, for its ids were valid.
pub const DERIVED_KEY_BYTES_MAX: usize = 14 + 3 * ID_BYTES_MAX + 1 + 3 * ID_BYTES_MAX + 1 + 19;
/// Most bytes of a reason.
pub const REASON_BYTES_MAX: usize = 64;
/// The reason that the allowance binds.
pub const TASK_ASSIGNED: &str = "task_assigned";
/// Keys with this prefix are left out of coalescing on both sides.
pub const COMMENT_KEY_PREFIX: &str = "task_comment:";

/// Why a string is no identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdFault {
    /// The contract wants at least one byte here.
    #[error("is empty")]
    Empty,
    /// Over the limit for its kind.
    #[error("holds {bytes} bytes, {bytes_max} are allowed")]
    TooLong {
        /// Bytes found.
        bytes: usize,
        /// Bytes allowed.
        bytes_max: usize,
    },
    /// U+0000, which PostgreSQL's `text` cannot hold.
    #[error("holds a NUL")]
    Nul,
}

fn checked(text: &str, bytes_max: usize) -> Result<Arc<str>, IdFault> {
    if text.len() > bytes_max {
        return Err(IdFault::TooLong { bytes: text.len(), bytes_max });
    }
    if text.contains('\0') {
        return Err(IdFault::Nul);
    }
    Ok(Arc::from(text))
}

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $bytes_max:expr, $empty:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the contract's limits.
            ///
            /// # Errors
            /// [`IdFault`] names the limit that `text` breaks.
            pub fn parse(text: &str) -> Result<Self, IdFault> {
                identifier!(@$empty text);
                checked(text, $bytes_max).map(Self)
            }

            /// The id as its publisher wrote it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The id for whoever has to keep it.
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
    (@non_empty $text:ident) => {
        if $text.is_empty() {
            return Err(IdFault::Empty);
        }
    };
    (@may_be_empty $text:ident) => {};
}

identifier!(
    /// The tenant. An absent organization is the organization `""`; every other id is within one.
    OrganizationId, ID_BYTES_MAX, may_be_empty
);
identifier!(
    /// A project within an organization.
    ProjectId, ID_BYTES_MAX, non_empty
);
identifier!(
    /// A task within an organization.
    TaskId, ID_BYTES_MAX, non_empty
);
identifier!(
    /// The agent profile that a wake is for.
    AgentId, ID_BYTES_MAX, non_empty
);
identifier!(
    /// Who acted, as a payload's `actor_id` says.
    ActorId, ID_BYTES_MAX, non_empty
);
identifier!(
    /// What kind of actor, as a payload's `actor_type` says; only `agent` is in the allowance's scope.
    ActorType, ID_BYTES_MAX, non_empty
);
identifier!(
    /// Who runs runs, by the name it gives itself.
    RunnerId, ID_BYTES_MAX, non_empty
);
identifier!(
    /// Why the agent is woken.
    Reason, REASON_BYTES_MAX, non_empty
);
identifier!(
    /// Identifies one occurrence within an organization, across redeliveries.
    IdempotencyKey, DERIVED_KEY_BYTES_MAX, non_empty
);

impl ActorType {
    /// A person or an administrative caller.
    #[must_use]
    pub fn user() -> Self {
        Self(Arc::from("user"))
    }

    /// The actor type that the allowance binds.
    #[must_use]
    pub fn agent() -> Self {
        Self(Arc::from("agent"))
    }

    /// Whether this is exactly `agent` (AC-OFFICE-ASSIGN-RATE-001.1).
    #[must_use]
    pub fn is_agent(&self) -> bool {
        self.as_str() == "agent"
    }
}

impl From<&AgentId> for ActorId {
    fn from(agent: &AgentId) -> Self {
        Self(Arc::clone(&agent.0))
    }
}

impl OrganizationId {
    /// The organization of events that name none.
    #[must_use]
    pub fn none() -> Self {
        Self(Arc::from(""))
    }
}

impl IdempotencyKey {
    /// A key that a publisher chose: its limit is [`KEY_BYTES_MAX`].
    ///
    /// # Errors
    /// [`IdFault`] names the limit that `text` breaks.
    pub fn parse_chosen(text: &str) -> Result<Self, IdFault> {
        if text.len() > KEY_BYTES_MAX {
            return Err(IdFault::TooLong { bytes: text.len(), bytes_max: KEY_BYTES_MAX });
        }
        Self::parse(text)
    }

    /// Whether coalescing leaves this key out on both sides.
    #[must_use]
    pub fn is_comment(&self) -> bool {
        self.as_str().starts_with(COMMENT_KEY_PREFIX)
    }
}

/// Identifies a wake for ever: the same delivery has the same id at every redelivery, and the run
/// that a wake creates has the id of the wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WakeId(Uuid);

impl WakeId {
    /// A UUID in version 7 layout: the stream's timestamp in ms, then the first bits of SHA-256
    /// over stream name, sequence and timestamp in ns, each preceded by its length in bytes as
    /// eight bytes big-endian. The stream's creation time is left out: it changes at a restore.
    #[must_use]
    pub fn derive(stream: &str, sequence: u64, stored_at_nanos: i128) -> Self {
        let mut hash = Sha256::new();
        for part in [stream.as_bytes(), &sequence.to_be_bytes(), &stored_at_nanos.to_be_bytes()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let digest = hash.finalize();
        let mut random = [0_u8; 10];
        random.copy_from_slice(&digest[..10]);
        let millis = u64::try_from(stored_at_nanos / 1_000_000).unwrap_or(0);
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }

    /// No wake that the stream stored at or after this instant has a smaller id: in milliseconds,
    /// which is what an id begins with.
    #[must_use]
    pub fn first_at(stored_at: UtcMicros) -> Self {
        let millis = u64::try_from(stored_at.micros().div_euclid(1_000)).unwrap_or(0);
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &[0; 10]).into_uuid())
    }

    /// When the stream stored it, to the millisecond; nothing where the id is of another layout.
    #[must_use]
    pub fn stored_at(self) -> Option<UtcMicros> {
        let (seconds, nanos) = self.0.get_timestamp()?.to_unix();
        Some(UtcMicros::from_nanos(i128::from(seconds) * 1_000_000_000 + i128::from(nanos)))
    }

    /// The id as the database and JSON hold it.
    #[must_use]
    pub fn uuid(self) -> Uuid {
        self.0
    }
}

impl From<Uuid> for WakeId {
    fn from(id: Uuid) -> Self {
        Self(id)
    }
}

impl fmt::Display for WakeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl serde::Serialize for WakeId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Identifies a run. It is the id of the wake that created the run, or whatever an outsider chose.
pub type RunId = WakeId;

/// What identifies a wake's occurrence to gates 3 and 7.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Occurrence {
    /// Seen once per organization.
    Keyed(IdempotencyKey),
    /// Every delivery is an occurrence of its own.
    Keyless(KeylessCause),
}

impl Occurrence {
    /// The key, if there is one.
    #[must_use]
    pub fn key(&self) -> Option<&IdempotencyKey> {
        match self {
            Self::Keyed(key) => Some(key),
            Self::Keyless(_) => None,
        }
    }
}

/// Why a wake carries no key (`wakegate_keyless_total`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeylessCause {
    /// A mutation whose assignment generation could not be resolved.
    Unresolved,
    /// The publisher chose none.
    ByDesign,
}

/// A request that an agent run for a reason, as decoded from one delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wake {
    /// See [`WakeId`].
    pub id: WakeId,
    /// Position on the stream; gate 0 compares it with the lane's cursor.
    pub sequence: u64,
    /// When the stream stored the wake, and the instant at which every window is evaluated.
    pub requested_at: UtcMicros,
    /// The producer token of the subject.
    pub producer: Producer,
    /// The tenant.
    pub organization_id: OrganizationId,
    /// The project, if the event names one.
    pub project_id: Option<ProjectId>,
    /// The agent to wake.
    pub agent_profile_id: AgentId,
    /// Why.
    pub reason: Reason,
    /// Key, or why there is none.
    pub occurrence: Occurrence,
    /// What the runner will read, with the fields wakegate itself reads from it.
    pub payload: Payload,
    /// W3C trace context, already checked for form.
    pub traceparent: Option<Arc<str>>,
    /// How many bytes the event's body holds.
    pub body_bytes: u32,
}

/// What a body asks for: a wake before its envelope is put around it.
struct Wanted {
    organization_id: OrganizationId,
    project_id: Option<ProjectId>,
    agent_profile_id: AgentId,
    reason: Reason,
    occurrence: Occurrence,
    payload: Payload,
}
