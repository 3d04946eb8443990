//! What became of a wake, as values.

use super::gates::GateName;
use super::limits::{Dimension, Layer};
use crate::wake::{RunId, UtcMicros};

/// What the gates concluded about one wake. A refusal is a result, not an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Gate 0: it was decided before; the recorded outcome is given again and nothing is written.
    Repeat(PriorOutcome),
    /// Insert a run.
    Admit {
        /// Set where a gate could not do its work.
        degraded: Option<Degraded>,
    },
    /// Merge into a queued run.
    Merge {
        /// The run it joins.
        run_id: RunId,
        /// Its key is new to the organization and is taken by the merge; an aged key keeps its
        /// first run.
        takes_key: bool,
    },
    /// The occurrence was seen before.
    Deduplicate {
        /// Within the lookback, or at any age.
        kind: DuplicateKind,
        /// The run it met.
        run_id: RunId,
    },
    /// Declined by a gate.
    Refuse(Refusal),
}

/// What the database says became of a wake at an earlier delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PriorOutcome {
    /// It created the run with its own id.
    Queued {
        /// `degraded_reason` of the run.
        degraded: Option<DegradedReason>,
        /// The request instant it was decided at.
        requested_at: UtcMicros,
        /// When it was decided.
        decided_at: UtcMicros,
    },
    /// It was merged.
    Coalesced {
        /// The run it joined.
        run_id: RunId,
        /// The request instant it was decided at.
        requested_at: UtcMicros,
        /// When it was decided.
        decided_at: UtcMicros,
    },
    /// It was refused; the record is given again byte for byte.
    Refused {
        /// The reason, as in [`Refusal::as_str`].
        reason: String,
        /// The outcome record, JSON.
        record: String,
    },
    /// The lane's cursor is past it and no row is its own, but its key is known.
    Deduplicated {
        /// Within the lookback, or at any age.
        kind: DuplicateKind,
        /// The run it met.
        run_id: RunId,
    },
}

/// How a duplicate was recognised (`wakegate_dedup_total`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DuplicateKind {
    /// Seen within 24 hours: gate 3.
    Windowed,
    /// Seen at any age: gate 7.
    Durable,
}

impl DuplicateKind {
    /// Label, and `reason` of the outcome record.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Windowed => "windowed",
            Self::Durable => "durable",
        }
    }
}

/// An admission in which the allowance could not do its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Degraded {
    /// AC-OFFICE-ASSIGN-RATE-002.2: the count could not be read.
    CountReadFailed {
        /// The failure, for the log.
        error: String,
    },
    /// AC-OFFICE-ASSIGN-RATE-002.3: the wake names no task that could be counted.
    TaskUnattributed,
}

impl Degraded {
    /// The closed value that is stored, counted and published.
    #[must_use]
    pub const fn reason(&self) -> DegradedReason {
        match self {
            Self::CountReadFailed { .. } => DegradedReason::CountReadFailed,
            Self::TaskUnattributed => DegradedReason::TaskUnattributed,
        }
    }
}

/// Closed set of `degraded_reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DegradedReason {
    /// See [`Degraded::CountReadFailed`].
    CountReadFailed,
    /// See [`Degraded::TaskUnattributed`].
    TaskUnattributed,
}

impl DegradedReason {
    /// Every reason.
    pub const ALL: [Self; 2] = [Self::CountReadFailed, Self::TaskUnattributed];

    /// As column, subject token and label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CountReadFailed => "count_read_failed",
            Self::TaskUnattributed => "task_unattributed",
        }
    }

    /// The reason with this name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

/// Why a gate declined a wake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Gate 1.
    AgentPaused,
    /// Gate 1.
    AgentStopped,
    /// Gate 1.
    AgentPendingApproval,
    /// Gate 2.
    PlatformPaused {
        /// The pause in force.
        pause_id: String,
    },
    /// Gate 2.
    OrganizationPaused {
        /// The pause in force.
        pause_id: String,
    },
    /// Gate 5.
    AllowanceExhausted {
        /// Admitted wakes in the window, at most [`super::OBSERVED_COUNT_MAX`].
        observed_count: u32,
        /// When, with nothing else admitted, the next one fits.
        retry_at: UtcMicros,
    },
    /// Gate 6.
    CapacityExhausted(Overload),
}

/// What was full, as the gate saw it (seed 004); who saw it, when and for whom is added where the
/// record is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overload {
    /// Which limit.
    pub boundary: Dimension,
    /// Whose.
    pub layer: Layer,
    /// How much was there, without this wake.
    pub depth: u64,
    /// How much may be there.
    pub capacity: u32,
    /// When the wake would fit, where something justifies to say so.
    pub retry: Option<Retry>,
}

/// When another try is worth it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// With nothing else admitted, at this instant.
    At(UtcMicros),
    /// If the queue goes on to drain as it does, so long after the decision.
    After {
        /// At least 1.
        seconds: u32,
    },
}

impl Overload {
    /// Why the boundary is one, in a word.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self.boundary {
            Dimension::QueuedPlatform
            | Dimension::QueuedOrganization
            | Dimension::QueuedProject => "queue_full",
            Dimension::ActivePlatform | Dimension::ActiveOrganization => "slots_taken",
            Dimension::Waiting => "no_waiting_allowed",
            Dimension::Intake => "rate_exceeded",
            Dimension::EventBytes => "event_too_large",
        }
    }
}

impl Refusal {
    /// What each gate that refuses can refuse for, in order.
    pub const BY_GATE: [(GateName, &'static [&'static str]); GateName::REFUSING.len()] = [
        (GateName::AgentStatus, &["agent_paused", "agent_stopped", "agent_pending_approval"]),
        (GateName::Pause, &["platform_paused", "organization_paused"]),
        (GateName::Allowance, &["allowance_exhausted"]),
        (GateName::Capacity, &["capacity_exhausted"]),
    ];

    /// Every reason a wake can be refused for.
    pub const REASONS: [&'static str; 7] = [
        "agent_paused",
        "agent_stopped",
        "agent_pending_approval",
        "platform_paused",
        "organization_paused",
        "allowance_exhausted",
        "capacity_exhausted",
    ];

    /// The gate that refuses so.
    #[must_use]
    pub const fn gate(&self) -> GateName {
        match self {
            Self::AgentPaused | Self::AgentStopped | Self::AgentPendingApproval => {
                GateName::AgentStatus
            }
            Self::PlatformPaused { .. } | Self::OrganizationPaused { .. } => GateName::Pause,
            Self::AllowanceExhausted { .. } => GateName::Allowance,
            Self::CapacityExhausted(_) => GateName::Capacity,
        }
    }

    /// As column, subject token and label.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::AgentPaused => "agent_paused",
            Self::AgentStopped => "agent_stopped",
            Self::AgentPendingApproval => "agent_pending_approval",
            Self::PlatformPaused { .. } => "platform_paused",
            Self::OrganizationPaused { .. } => "organization_paused",
            Self::AllowanceExhausted { .. } => "allowance_exhausted",
            Self::CapacityExhausted(_) => "capacity_exhausted",
        }
    }
}
