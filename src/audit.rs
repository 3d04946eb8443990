//! The audit log: refusals, those of gates in shadow included, degraded admissions and rejections,
//! published to `WAKE_AUDIT`.
//!
//! An [`Audited`] is the proof that a batch is durable and that everything operators must learn of
//! it is on the audit stream. It can be made only from a [`Recorded`], and only it acknowledges.

mod cut;
pub mod jetstream;
pub mod live;
pub mod memory;
pub mod past;

use std::collections::HashMap;
use std::future::Future;
use std::marker::PhantomData;

pub use self::jetstream::JetStreamAudit;
pub use self::memory::MemoryAudit;
use crate::store::Recorded;
use crate::wake::WakeId;

/// What an audit event is about: the second token of its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuditClass {
    /// A wake that a gate declined.
    Refused,
    /// A wake admitted though a gate could not do its work.
    Degraded,
    /// A wake that a gate in shadow let through.
    WouldRefuse,
    /// An event that is no wake.
    Rejected,
    /// Wakes that the stream no longer had when they were to be decided.
    Lost,
}

impl AuditClass {
    /// Every class.
    pub const ALL: [Self; 4] = [Self::Refused, Self::Degraded, Self::Rejected, Self::Lost];

    /// As subject token.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Degraded => "degraded",
            Self::WouldRefuse => "would_refuse",
            Self::Rejected => "rejected",
            Self::Lost => "lost",
        }
    }
}

/// One event of the audit stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEvent {
    /// The wake, or what stands for it; with class and reason it makes the `Nats-Msg-Id`.
    pub wake_id: WakeId,
    /// What it is about.
    pub class: AuditClass,
    /// Subject token, of a closed set.
    pub reason: String,
    /// Subject token of the organization, already encoded.
    pub organization_token: String,
    /// The outcome record, JSON.
    pub record: String,
}

impl AuditEvent {
    /// `wake-audit.<class>.<reason>.<organization>`.
    #[must_use]
    pub fn subject(&self) -> String {
        format!("wake-audit.{}.{}.{}", self.class.as_str(), self.reason, self.organization_token)
    }

    /// `<wake_id>.<class>.<reason>`, by which the stream and its subscribers drop repeats.
    #[must_use]
    pub fn message_id(&self) -> String {
        format!("{}.{}.{}", self.wake_id, self.class.as_str(), self.reason)
    }
}

/// Proof that a batch is durable and audited, naming the wakes it covers.
#[derive(Debug)]
pub struct Audited {
    recorded: Recorded,
}

impl Audited {
    /// To be called by an audit log once every event of the batch is on the stream.
    fn after_acknowledgement(recorded: Recorded) -> Self {
        Self { recorded }
    }

    /// The wakes covered.
    #[must_use]
    pub fn covers(&self) -> &[WakeId] {
        self.recorded.covers()
    }

    /// Permission to acknowledge the delivery of each wake covered.
    #[must_use]
    pub fn permits(&self) -> HashMap<WakeId, AckPermit<'_>> {
        self.covers()
            .iter()
            .map(|id| (*id, AckPermit { wake_id: *id, proof: PhantomData }))
            .collect()
    }
}

/// Permission to acknowledge the delivery of one wake: it is durable, and audited where operators
/// must learn of it. Made only by [`Audited::permits`].
#[derive(Debug)]
pub struct AckPermit<'proof> {
    wake_id: WakeId,
    proof: PhantomData<&'proof Audited>,
}

impl AckPermit<'_> {
    /// The wake it is for.
    #[must_use]
    pub fn wake_id(&self) -> WakeId {
        self.wake_id
    }
}

/// The audit stream did not take an event. The lane holds and publishes again; the stream drops
/// what it already has by message id.
#[derive(Debug, thiserror::Error)]
#[error("the audit stream is unavailable: {error}")]
pub struct AuditError {
    /// The cause chain in one line.
    pub error: String,
}

/// Where audit events go.
pub trait AuditLog: Clone + Send + Sync + 'static {
    /// Publishes the events of a recorded batch and waits until each is stored.
    ///
    /// # Errors
    /// [`AuditError`] gives the proof back, so that the caller can try again.
    fn publish(
        &self,
        recorded: Recorded,
        events: &[AuditEvent],
    ) -> impl Future<Output = Result<Audited, (Recorded, AuditError)>> + Send;
}
