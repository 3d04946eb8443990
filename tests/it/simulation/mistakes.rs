//! Mistakes that somebody could make in a lane or in what it stands on, injected where the lane
//! meets its servers. Each must make the simulation fail: this list is what shows that it bites.

mod audit;
mod consumer;
mod races;
mod store;

pub use self::audit::MistakenAudit;
pub use self::consumer::MistakenConsumer;
pub use self::store::MistakenStore;

use super::oracle::Invariant;

/// Declares the mistakes, and for each what breaks.
macro_rules! mistakes {
    ($($(#[doc = $doc:literal])+ $mistake:ident breaks $invariant:ident,)+) => {
        /// A mistake that somebody could make.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Mistake {
            $($(#[doc = $doc])+ $mistake,)+
        }

        impl Mistake {
            pub const ALL: &'static [Self] = &[$(Self::$mistake,)+];

            /// What it breaks, sooner or later.
            pub const fn breaks(self) -> Invariant {
                match self {
                    $(Self::$mistake => Invariant::$invariant,)+
                }
            }
        }
    };
}

mistakes! {
    /// Success is said of a record before it is committed.
    AckBeforeCommit breaks Proof,
    /// An audit event counts as stored once it is sent: its acknowledgement is not awaited.
    PubAckDropped breaks Proof,
    /// One acknowledgement settles everything that has been delivered.
    AckAll breaks Proof,
    /// The count has no upper bound: what was admitted after a wake's instant counts against it.
    NoUpperBound breaks RefusedEarly,
    /// A count that cannot be read refuses.
    CountFailsClosed breaks RefusedEarly,
    /// Pauses that cannot be read are taken for none.
    PauseFailsOpen breaks Fresh,
    /// After a hold a batch is decided from what was read before it.
    StaleAfterHold breaks Fresh,
    /// After a lost race only the wakes that lost it are decided again.
    OnlyLosersAgain breaks Serial,
    /// A key is seen whoever's it is.
    KeyNotScoped breaks Serial,
    /// Keys are not kept.
    KeysForgotten breaks Serial,
    /// A merged wake leaves nothing but its payload.
    MergesForgotten breaks Serial,
    /// A wake is judged at the instant it is delivered.
    InstantOfArrival breaks Serial,
    /// A worker that has lost its lane may commit.
    NoFence breaks Fence,
    /// The lane goes on at once after a change of owner.
    NoBarrier breaks Order,
    /// A delivery that was lost on its way leaves no gap.
    GapUnnoticed breaks Order,
    /// Refusals are not looked up when a wake is delivered again.
    RefusalsNotLookedUp breaks OneOutcome,
    /// A lane that waits gives back what it has.
    NakInsteadOfHold breaks NoNak,
    /// The consumer has no `max_ack_pending`.
    NoPendingLimit breaks Memory,
    /// Nothing is recognised when it is delivered again.
    NoIdentity breaks HoldEnds,
    /// What failed once is not tried again.
    NeverAgain breaks HoldEnds,
}
