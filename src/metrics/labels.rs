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
