//! One delivery becomes one [`Event`]: a wake, no wake, or a rejection. Pure.

use std::sync::Arc;

use bytes::Bytes;

use super::{AgentId, OrganizationId, Producer, ProjectId, TaskId, UtcMicros, Wake, WakeId};

/// Largest body that is decoded, in bytes; the stream itself takes up to 512 KiB.
pub const BODY_BYTES_MAX: usize = 256 * 1_024;
/// Most bytes of an `Wakegate-Outcome-To` subject.
pub const OUTCOME_SUBJECT_BYTES_MAX: usize = 256;

/// One message as the stream delivered it, stripped of everything that decoding does not read.
#[derive(Debug, Clone)]
pub struct Message {
    /// Name of the stream.
    pub stream: Arc<str>,
    /// Sequence on the stream.
    pub sequence: u64,
    /// The stream's timestamp in nanoseconds since the epoch; part of the wake's identity.
    pub stored_at_nanos: i128,
    /// The request instant: the stream's timestamp, corrected so that it does not run backwards
    /// within a lane.
    pub requested_at: UtcMicros,
    /// Subject as stored: `wakes.<partition>.<producer>.<organization>.<task>`.
    pub subject: Arc<str>,
    /// The body.
    pub body: Bytes,
    /// Header `traceparent`, if present.
    pub traceparent: Option<Arc<str>>,
    /// Header `Wakegate-Outcome-To`, if present.
    pub outcome_to: Option<Arc<str>>,
}

/// One decoded delivery.
#[derive(Debug, Clone)]
pub struct Event {
    /// What holds for every event, however it is made.
    pub envelope: Envelope,
    /// What the body says.
    pub content: Content,
}

/// What holds for every delivery, read from subject, headers and stream position.
#[derive(Debug, Clone)]
pub struct Envelope {
    /// See [`WakeId`].
    pub id: WakeId,
    /// Name of the stream.
    pub stream: Arc<str>,
    /// Sequence on the stream.
    pub sequence: u64,
    /// See [`Message::stored_at_nanos`].
    pub stored_at_nanos: i128,
    /// See [`Message::requested_at`].
    pub requested_at: UtcMicros,
    /// Producer token of the subject, shortened to the limit where it is longer.
    pub producer: Producer,
    /// Organization token of the subject: used where a body cannot be read.
    pub organization_token: Arc<str>,
    /// Where the outcome is wanted, where the contract honours it.
    pub outcome_to: Option<Arc<str>>,
    /// A `Wakegate-Outcome-To` was there and is not honoured.
    pub outcome_to_ignored: bool,
    /// `traceparent`, where it is of the W3C form.
    pub traceparent: Option<Arc<str>>,
}

/// What the body of an event says.
#[derive(Debug, Clone)]
pub enum Content {
    /// A wake.
    Wake(Arc<Wake>),
    /// A well-formed mutation that wakes nobody.
    NoWake(NoWake),
    /// The event itself is at fault.
    Rejected(Rejection),
}

/// A mutation that wakes nobody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoWake {
    /// Why.
    pub cause: NoWakeCause,
    /// The tenant.
    pub organization_id: OrganizationId,
    /// The project, if named.
    pub project_id: Option<ProjectId>,
    /// The task that changed.
    pub task_id: TaskId,
    /// The agent that acted, if one did.
    pub acting_agent_id: Option<AgentId>,
}

/// Why a mutation wakes nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoWakeCause {
    /// `new_assignee_agent_profile_id` is absent or null.
    AssigneeUnchanged,
    /// `new_assignee_agent_profile_id` is `""` (AC-OFFICE-ASSIGN-RATE-001.9).
    Unassigned,
}

impl NoWakeCause {
    /// As the outcome record's `reason` says it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AssigneeUnchanged => "assignee_unchanged",
            Self::Unassigned => "unassigned",
        }
    }
}

/// Why an event is no wake at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Closed set, used in subjects and labels.
    pub reason: RejectReason,
    /// The fault in words, naming field and limit; never a raw body, free of control characters.
    pub fault: String,
    /// The body as received.
    pub body: Bytes,
}

/// Why an event is rejected (contract, "Events").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RejectReason {
    /// Not a JSON object.
    NotJson,
    /// Bytes that are no UTF-8.
    NotUtf8,
    /// A `type` that is absent or unknown.
    UnknownType,
    /// A field breaks the contract.
    InvalidField,
    /// The body is over [`BODY_BYTES_MAX`].
    TooLarge,
    /// The database refuses this very wake.
    Unstorable,
    /// The body names another organization or task than the subject.
    SubjectMismatch,
    /// Three attempts at this wake alone ended with the process.
    Poison,
}

impl RejectReason {
    /// Every reason, in the contract's order.
    pub const ALL: [Self; 8] = [
        Self::NotJson,
        Self::NotUtf8,
        Self::UnknownType,
        Self::InvalidField,
        Self::TooLarge,
        Self::Unstorable,
        Self::SubjectMismatch,
        Self::Poison,
    ];

    /// As subject token and label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotJson => "not_json",
            Self::NotUtf8 => "not_utf8",
            Self::UnknownType => "unknown_type",
            Self::InvalidField => "invalid_field",
            Self::TooLarge => "too_large",
            Self::Unstorable => "unstorable",
            Self::SubjectMismatch => "subject_mismatch",
            Self::Poison => "poison",
        }
    }
}

/// Decodes one delivery. Never panics and never fails: what is at fault is a [`Rejection`].
#[must_use]
pub fn decode(message: &Message) -> Event {
    let _ = message;
    todo!("written by the decode slice")
}
