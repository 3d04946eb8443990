//! One delivery becomes one [`Event`]: a wake, no wake, or a rejection. Pure.

use std::sync::Arc;

use bytes::Bytes;

use super::fields::{Faults, Fields, quoted};
use super::json::{self, Held};
use super::mutation::{self, Mutation};
use super::subject::Subject;
use super::{
    AgentId, OrganizationId, Producer, ProjectId, TaskId, UtcMicros, Wake, WakeId, Wanted, headers,
    requested,
};

/// `type` of a changed task, from which a wake is derived.
pub const TASK_MUTATED: &str = "task.mutated.v1";
/// `type` of a wake as such.
pub const WAKE_REQUESTED: &str = "wake.requested.v1";

/// Largest body that is decoded, in bytes; the stream itself takes up to 512 KiB.
pub const BODY_BYTES_MAX: usize = 256 * 1_024;
/// Most bytes of a `Wakegate-Outcome-To` subject.
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
    /// The stream's timestamp in microseconds; a lane corrects it where it runs backwards.
    pub requested_at: UtcMicros,
    /// Subject as stored: `wakes.<partition>.<producer>.<organization>.<task>`.
    pub subject: Arc<str>,
    /// The body.
    pub body: Bytes,
    /// Header `traceparent`, if present.
    pub traceparent: Option<Arc<str>>,
    /// Header `tracestate`, if present beside it.
    pub tracestate: Option<Arc<str>>,
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
    /// The request instant: the stream's timestamp, corrected so that it does not run backwards
    /// within a lane.
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
    /// `tracestate`, where there is a `traceparent` and it can be one.
    pub tracestate: Option<Arc<str>>,
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
    decode_at(message, message.requested_at)
}

/// Decodes one delivery with the request instant that its lane gives it.
#[must_use]
pub fn decode_at(message: &Message, requested_at: UtcMicros) -> Event {
    decode_within(message, requested_at, BODY_BYTES_MAX)
}

/// Decodes one delivery whose body may hold so many bytes, at most [`BODY_BYTES_MAX`].
#[must_use]
pub fn decode_within(message: &Message, requested_at: UtcMicros, bytes_max: usize) -> Event {
    let subject = Subject::split(&message.subject);
    let envelope = envelope(message, requested_at, &subject);
    let content = content(message, &subject, &envelope, bytes_max.min(BODY_BYTES_MAX))
        .unwrap_or_else(|(reason, fault)| {
            Content::Rejected(Rejection { reason, fault, body: message.body.clone() })
        });
    Event { envelope, content }
}

fn envelope(message: &Message, requested_at: UtcMicros, subject: &Subject<'_>) -> Envelope {
    let honoured = |to: &&Arc<str>| headers::may_take_outcomes(to);
    let outcome_to = message.outcome_to.as_ref().filter(honoured).cloned();
    let is_traceparent = |value: &&Arc<str>| headers::is_traceparent(value);
    let is_tracestate = |value: &&Arc<str>| headers::is_tracestate(value);
    let traceparent = message.traceparent.as_ref().filter(is_traceparent).cloned();
    let tracestate = traceparent.as_ref().and(message.tracestate.as_ref());
    Envelope {
        id: WakeId::derive(&message.stream, message.sequence, message.stored_at_nanos),
        stream: Arc::clone(&message.stream),
        sequence: message.sequence,
        stored_at_nanos: message.stored_at_nanos,
        requested_at,
        producer: Producer::parse(subject.producer)
            .unwrap_or_else(|_| Producer::shortened(subject.producer)),
        organization_token: Arc::from(subject.organization_token()),
        outcome_to_ignored: message.outcome_to.is_some() && outcome_to.is_none(),
        outcome_to,
        tracestate: tracestate.filter(is_tracestate).cloned(),
        traceparent,
    }
}

/// A reason for rejection, and the fault in words.
type Fault = (RejectReason, String);

/// The checks in their order: what a later one would read, an earlier one has found readable.
fn content(
    message: &Message,
    subject: &Subject<'_>,
    envelope: &Envelope,
    bytes_max: usize,
) -> Result<Content, Fault> {
    let fields = found(&message.body, bytes_max)?;
    let kind = event_type(&fields)?;

    let mut faults = Faults::default();
    if let Err(fault) = Producer::parse(subject.producer) {
        faults.note("producer", fault);
    }
    let mutation = match kind {
        EventType::TaskMutated => mutation::read(&fields, &mut faults),
        EventType::WakeRequested => requested::read(&fields, &mut faults).map(Mutation::Wanted),
    };
    let Some(mutation) = mutation.filter(|_| faults.is_empty()) else {
        return Err((RejectReason::InvalidField, faults.into_text()));
    };

    let (organization_id, task_id) = match &mutation {
        Mutation::Wanted(wanted) => (&wanted.organization_id, wanted.payload.task().task()),
        Mutation::NoWake(no_wake) => (&no_wake.organization_id, Some(&no_wake.task_id)),
    };
    subject.check(organization_id, task_id, &mut faults);
    if !faults.is_empty() {
        return Err((RejectReason::SubjectMismatch, faults.into_text()));
    }
    Ok(match mutation {
        Mutation::Wanted(wanted) => Content::Wake(Arc::new(wanted.by(envelope, &message.body))),
        Mutation::NoWake(no_wake) => Content::NoWake(no_wake),
    })
}

/// The body's fields; a body that is too large is not looked at.
fn found(body: &[u8], bytes_max: usize) -> Result<Fields<'_>, Fault> {
    if body.len() > bytes_max {
        let bytes = body.len();
        let fault = format!("the body holds {bytes} bytes, {bytes_max} are allowed");
        return Err((RejectReason::TooLarge, fault));
    }
    let text = std::str::from_utf8(body).map_err(|error| {
        let fault = format!("the body is no UTF-8 after byte {}", error.valid_up_to());
        (RejectReason::NotUtf8, fault)
    })?;
    Fields::find(text)
        .map_err(|fault| (RejectReason::NotJson, format!("the body is no JSON object: it {fault}")))
}

#[derive(Debug, Clone, Copy)]
enum EventType {
    TaskMutated,
    WakeRequested,
}

fn event_type(fields: &Fields<'_>) -> Result<EventType, Fault> {
    let found = match fields.kind.raw().map(json::held) {
        Some(Held::Text(text)) => match &*text {
            TASK_MUTATED => return Ok(EventType::TaskMutated),
            WAKE_REQUESTED => return Ok(EventType::WakeRequested),
            unknown => quoted(unknown),
        },
        None => "absent".to_owned(),
        Some(Held::Null) => "null".to_owned(),
        Some(Held::Unstorable(_)) => "no text".to_owned(),
        Some(Held::Other(found)) => found.to_owned(),
    };
    let fault = format!("`type` is {found}; known are {TASK_MUTATED} and {WAKE_REQUESTED}");
    Err((RejectReason::UnknownType, fault))
}

impl Wanted {
    fn by(self, envelope: &Envelope, body: &[u8]) -> Wake {
        Wake {
            id: envelope.id,
            sequence: envelope.sequence,
            requested_at: envelope.requested_at,
            producer: envelope.producer.clone(),
            organization_id: self.organization_id,
            project_id: self.project_id,
            agent_profile_id: self.agent_profile_id,
            reason: self.reason,
            occurrence: self.occurrence,
            payload: self.payload,
            traceparent: envelope.traceparent.clone(),
            body_bytes: u32::try_from(body.len()).unwrap_or(u32::MAX),
        }
    }
}
