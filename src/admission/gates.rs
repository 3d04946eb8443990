//! The gates, in order, in one list. A new gate is one new file and one new line here.

pub mod agent_status;
pub mod allowance;
pub mod capacity;
pub mod coalesce;
pub mod duplicate;
pub mod identity;
pub mod insert;
pub mod pause;

use super::decision::{Decision, Degraded};
use super::facts::{Facts, ReadFailure};
use super::sight::Sight;
use crate::wake::Wake;

/// The order is contract (AC-OFFICE-ASSIGN-RATE-001.5): what an earlier gate concludes, no later
/// one sees.
pub const GATES: [Gate; 8] = [
    identity::GATE, // 0: a decided wake repeats its outcome, so nothing after it may look
    agent_status::GATE, // 1: an agent that may not run needs no further question
    pause::GATE,    // 2: the kill switch stands before everything that admits
    duplicate::GATE, // 3: a redelivered occurrence never consumes the allowance
    coalesce::GATE, // 4: what joins a queued run inserts none, so it consumes nothing
    allowance::GATE, // 5: bounds what would now be a new run
    capacity::GATE, // 6: only what would insert a run meets a ceiling
    insert::GATE,   // 7: a key that exists at any age
];

/// One gate.
#[derive(Debug, Clone, Copy)]
pub struct Gate {
    /// Its name, and label of `wakegate_gate_errors_total`.
    pub name: GateName,
    /// What it means that its own read failed.
    pub posture: Posture,
    /// Looks at a wake. An error is a failed read that this very wake needed.
    pub check: fn(&Facts, &Wake) -> Result<Verdict, ReadFailure>,
    /// What that look met, for whoever asks why; never called when deciding. An error is the failed
    /// read that the check answers with.
    pub sight: fn(&Facts, &Wake) -> Result<Sight, ReadFailure>,
}

/// The gates' names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GateName {
    /// Gate 0.
    Identity,
    /// Gate 1.
    AgentStatus,
    /// Gate 2.
    Pause,
    /// Gate 3.
    Duplicate,
    /// Gate 4.
    Coalesce,
    /// Gate 5.
    Allowance,
    /// Gate 6.
    Capacity,
    /// Gate 7, which reads nothing of its own.
    Insert,
}

impl GateName {
    /// The gates that read, in order: the closed set of the `gate` label.
    pub const READING: [Self; 7] = [
        Self::Identity,
        Self::AgentStatus,
        Self::Pause,
        Self::Duplicate,
        Self::Coalesce,
        Self::Allowance,
        Self::Capacity,
    ];

    /// The gates that refuse, in order: those that can be in shadow.
    pub const REFUSING: [Self; 4] =
        [Self::AgentStatus, Self::Pause, Self::Allowance, Self::Capacity];

    /// Every gate, in order.
    pub const ALL: [Self; 8] = [
        Self::Identity,
        Self::AgentStatus,
        Self::Pause,
        Self::Duplicate,
        Self::Coalesce,
        Self::Allowance,
        Self::Capacity,
        Self::Insert,
    ];

    /// Whether it is of those that refuse.
    #[must_use]
    pub fn refuses(self) -> bool {
        Self::REFUSING.contains(&self)
    }

    /// Its number in the contract.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Identity => 0,
            Self::AgentStatus => 1,
            Self::Pause => 2,
            Self::Duplicate => 3,
            Self::Coalesce => 4,
            Self::Allowance => 5,
            Self::Capacity => 6,
            Self::Insert => 7,
        }
    }

    /// As label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::AgentStatus => "agent_status",
            Self::Pause => "pause",
            Self::Duplicate => "duplicate",
            Self::Coalesce => "coalesce",
            Self::Allowance => "allowance",
            Self::Capacity => "capacity",
            Self::Insert => "insert",
        }
    }
}

/// What a gate's own failed read means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posture {
    /// The lane waits: a wrong answer would be a correctness defect.
    Hold,
    /// The lane waits, and nothing may be admitted meanwhile: a kill switch that fails open is
    /// none.
    Closed,
    /// The wake is admitted, counted and logged: a bounded cost problem beats an unbounded
    /// liveness one (AC-OFFICE-ASSIGN-RATE-002.2).
    Open,
}

/// What a gate says about a wake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The next gate is asked.
    Pass,
    /// The next gate is asked, and if the wake is admitted, it is so with this note.
    PassDegraded(Degraded),
    /// Decided here.
    Conclude(Decision),
}
