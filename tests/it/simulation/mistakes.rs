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
use super::run::run;

/// Seeds that are tried with a mistake before it counts as unnoticed. Most are noticed by one of the
/// first thirty; a decision that only a lost race makes wrong takes some hundreds.
const SEEDS_MAX: u64 = 1_000;

/// Declares the mistakes, for each what breaks, and the test that holds that it does.
macro_rules! mistakes {
    ($(
        $(#[doc = $doc:literal])+
        $mistake:ident breaks $invariant:ident, noticed by $test:ident;
    )+) => {
        /// A mistake that somebody could make.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Mistake {
            $($(#[doc = $doc])+ $mistake,)+
        }

        /// What the mistakes break.
        const BROKEN: &[Invariant] = &[$(Invariant::$invariant),+];

        /// Each mistake is noticed, by the promise that it breaks.
        mod noticed {
            $(
                #[test]
                fn $test() {
                    super::notice(super::Mistake::$mistake, super::Invariant::$invariant);
                }
            )+
        }
    };
}

mistakes! {
    /// Success is said of a record before it is committed.
    AckBeforeCommit breaks Proof, noticed by ack_before_commit;
    /// An audit event counts as stored once it is sent: its acknowledgement is not awaited.
    PubAckDropped breaks Proof, noticed by pub_ack_dropped;
    /// One acknowledgement settles everything that has been delivered.
    AckAll breaks Proof, noticed by ack_all;
    /// The count has no upper bound: what was admitted after a wake's instant counts against it.
    NoUpperBound breaks RefusedEarly, noticed by no_upper_bound;
    /// The count has no lower bound: what was admitted long ago counts for ever.
    NoLowerBound breaks RefusedEarly, noticed by no_lower_bound;
    /// What a runner has taken is not counted any more.
    CountsOnlyQueued breaks AdmittedTooMany, noticed by counts_only_queued;
    /// A count that cannot be read refuses.
    CountFailsClosed breaks RefusedEarly, noticed by count_fails_closed;
    /// Pauses that cannot be read are taken for none.
    PauseFailsOpen breaks Fresh, noticed by pause_fails_open;
    /// After a hold a batch is decided from what was read before it.
    StaleAfterHold breaks Fresh, noticed by stale_after_hold;
    /// After a lost race only the wakes that lost it are decided again.
    OnlyLosersAgain breaks Serial, noticed by only_losers_again;
    /// A key is seen whoever's it is.
    KeyNotScoped breaks Serial, noticed by key_not_scoped;
    /// Keys are not kept.
    KeysForgotten breaks Serial, noticed by keys_forgotten;
    /// A merged wake leaves nothing but its payload.
    MergesForgotten breaks Serial, noticed by merges_forgotten;
    /// A wake is judged at the instant it is delivered.
    InstantOfArrival breaks Serial, noticed by instant_of_arrival;
    /// The room that was seen when a batch was decided is taken for what is there when it is written.
    RoomNotHeld breaks Room, noticed by room_not_held;
    /// With the gate in shadow nobody looks how full the queue is.
    RoomUnseen breaks Room, noticed by room_unseen;
    /// What is in shadow when it is decided is in force when it is written.
    RoomHeldInShadow breaks Room, noticed by room_held_in_shadow;
    /// A worker that has lost its lane may commit.
    NoFence breaks Fence, noticed by no_fence;
    /// The lane goes on at once after a change of owner.
    NoBarrier breaks Order, noticed by no_barrier;
    /// A delivery that was lost on its way leaves no gap.
    GapUnnoticed breaks Order, noticed by gap_unnoticed;
    /// Refusals are not looked up when a wake is delivered again.
    RefusalsNotLookedUp breaks OneOutcome, noticed by refusals_not_looked_up;
    /// A refusal that is repeated is made out anew.
    RefusalRepeatedAnew breaks SameAnswer, noticed by refusal_repeated_anew;
    /// What gates in shadow would have refused is told, and not kept.
    ShadowsForgotten breaks EveryOutcome, noticed by shadows_forgotten;
    /// What gates in shadow would have refused is kept, and not told to operators.
    ShadowsUntold breaks Proof, noticed by shadows_untold;
    /// A merge is noted, and the run keeps the payload that it had.
    MergeLeavesRun breaks EveryOutcome, noticed by merge_leaves_run;
    /// Where the stream ends is asked once, and not anew with each look at the lane.
    StreamKnownAlready breaks NothingLost, noticed by stream_known_already;
    /// Where a lane stands is read from a copy of the database that lags.
    CursorLags breaks NotBehind, noticed by cursor_lags;
    /// A call has no deadline.
    NoDeadline breaks Ends, noticed by no_deadline;
    /// A lane that waits gives back what it has.
    NakInsteadOfHold breaks NoNak, noticed by nak_instead_of_hold;
    /// The consumer has no `max_ack_pending`.
    NoPendingLimit breaks Memory, noticed by no_pending_limit;
    /// Nothing is recognised when it is delivered again.
    NoIdentity breaks HoldEnds, noticed by no_identity;
    /// What failed once is not tried again.
    NeverAgain breaks HoldEnds, noticed by never_again;
}

#[test]
fn every_promise_is_broken_by_a_mistake() {
    let kept: Vec<&Invariant> = Invariant::ALL.iter().filter(|of| !BROKEN.contains(of)).collect();
    assert!(kept.is_empty(), "no mistake breaks {kept:?}");
}

/// Runs seeds until one breaks the promise.
fn notice(mistake: Mistake, invariant: Invariant) {
    let breaks = |seed: &u64| {
        let breaches = run(*seed, Some(mistake), false).breaches;
        breaches.iter().any(|breach| breach.invariant == invariant)
    };
    let noticed = (0..SEEDS_MAX).find(breaks);
    assert!(noticed.is_some(), "{mistake:?} breaks no {invariant:?} in {SEEDS_MAX} seeds");
}
