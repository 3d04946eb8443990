//! The closed sets of label values that no other module has.

use crate::admission::decision::DegradedReason;
use crate::wake::KeylessCause;

macro_rules! labels {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$value_doc])* $value,)+
        }

        impl $name {
            /// Every value, in the contract's order.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// As label.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }
        }
    };
}

labels! {
    /// What the assignment allowance did (AC-OFFICE-ASSIGN-RATE-003.1: exactly three values).
    AllowanceReason {
        /// It refused.
        AllowanceExhausted = "allowance_exhausted",
        /// It could not count, and the wake was admitted.
        CountReadFailed = "count_read_failed",
        /// It could not tell the task, and the wake was admitted.
        TaskUnattributed = "task_unattributed",
    }
}

labels! {
    /// A breach of the contract that does not reject the event.
    Violation {
        /// A producer other than `task_mutation` carried an agent actor
        /// (AC-OFFICE-ASSIGN-RATE-001.12).
        ForeignAgentActor = "foreign_agent_actor",
        /// A `Wakegate-Outcome-To` that is not honoured.
        OutcomeSubject = "outcome_subject",
        /// A `Nats-Msg-Id` that does not begin with its organization's token: the stream drops
        /// repeats whoever's they are, so this may be aimed at somebody else's.
        MessageId = "message_id",
    }
}

labels! {
    /// For want of which server a lane holds.
    HoldCause {
        /// The database.
        Store = "store",
        /// The audit stream.
        Audit = "audit",
        /// The broker.
        Broker = "broker",
    }
}

labels! {
    /// What became of a span.
    TraceSpan {
        /// The collector took it.
        Exported = "exported",
        /// The queue was full.
        QueueFull = "queue_full",
        /// The request that it was in failed.
        Failed = "failed",
        /// The collector took the request and not all of its spans.
        Rejected = "rejected",
    }
}

labels! {
    /// The stages of a batch.
    Stage {
        /// Bytes to wakes.
        Decode = "decode",
        /// The reads.
        Facts = "facts",
        /// The gates.
        Decide = "decide",
        /// The transaction.
        Record = "record",
        /// The audit events.
        Audit = "audit",
        /// The acknowledgements.
        Settle = "settle",
    }
}

labels! {
    /// What a claim was answered with.
    ClaimAnswer {
        /// Runs.
        Served = "served",
        /// None: there was no work for as long as it waited.
        Empty = "empty",
        /// Too many wait already.
        Busy = "busy",
        /// It was at fault itself.
        Refused = "refused",
        /// The database did not answer.
        Unavailable = "unavailable",
    }
}

labels! {
    /// What a request about a run was answered with.
    RequestAnswer {
        /// It was done, or had been.
        Done = "done",
        /// It was not.
        Refused = "refused",
        /// The database did not answer, or too much was asked at once.
        Unavailable = "unavailable",
    }
}

labels! {
    /// What was over.
    Overdue {
        /// The lease of a run that was claimed and not started: it went back to its place.
        Claim = "claim",
        /// The lease of a run that had started: it failed.
        Lease = "lease",
        /// The time that a run may wait: it expired.
        Waiting = "waiting",
        /// The patience of whoever paused with `stop_now`: it is to be cancelled.
        Stopped = "stopped",
        /// The time that a runner may take to confirm a cancellation: it was ended.
        Cancellation = "cancellation",
    }
}

labels! {
    /// Where a run is.
    QueueState {
        /// It waits to be claimed.
        Queued = "queued",
        /// It is claimed, or runs.
        Active = "active",
    }
}

labels! {
    /// What became of a run.
    RunEventLabel {
        /// It was given to a runner.
        Claimed = "claimed",
        /// It began.
        Started = "started",
        /// It went back to its place.
        Returned = "returned",
        /// It did what it was for.
        Succeeded = "succeeded",
        /// It did not, or its runner was lost.
        Failed = "failed",
        /// It is to end.
        CancelRequested = "cancel_requested",
        /// It was cancelled or withdrawn.
        Cancelled = "cancelled",
        /// It had waited for too long.
        Expired = "expired",
        /// Something that this program does not know.
        Other = "other",
    }
}

impl RunEventLabel {
    /// The label of an event.
    #[must_use]
    pub fn of(event: &str) -> Self {
        Self::ALL.iter().copied().find(|known| known.as_str() == event).unwrap_or(Self::Other)
    }
}

impl From<DegradedReason> for AllowanceReason {
    fn from(reason: DegradedReason) -> Self {
        match reason {
            DegradedReason::CountReadFailed => Self::CountReadFailed,
            DegradedReason::TaskUnattributed => Self::TaskUnattributed,
        }
    }
}

/// Every cause that [`keyless_cause`] names.
pub(super) const KEYLESS_CAUSES: [KeylessCause; 2] =
    [KeylessCause::Unresolved, KeylessCause::ByDesign];

/// As label.
pub(super) const fn keyless_cause(cause: KeylessCause) -> &'static str {
    match cause {
        KeylessCause::Unresolved => "unresolved",
        KeylessCause::ByDesign => "by_design",
    }
}
