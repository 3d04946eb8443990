//! The queue: which run is started next, by whom, until when, and how it ends.
//!
//! Its state (how many runs wait and are under way, and which is first) is kept by the database with
//! every change of `runs`, whoever makes it; docs/queue.md tells the rules. Here is what changes it.
//! Every change is one transaction and a compare-and-set, and repeating one answers as the first time
//! did, so that a caller who got no answer asks again. Time is always a parameter.

mod answers;
pub(super) mod held;
pub(super) mod people;
mod requests;

use std::collections::HashMap;
use std::future::Future;

pub use self::answers::{
    CancelAnswer, ClaimedRun, Depth, FinishAnswer, HeartbeatAnswer, MovedRun, NotHeld, QueueDepth,
    RunEvent, RunEventKind, RunStatus, StartAnswer,
};
pub use self::requests::{
    CLAIM_ORGANIZATIONS_MAX, CancelRequest, CancelScope, ClaimRequest, EXPIRED_BY_CLAIM_MAX,
    FinishRequest, Held, RunEnd,
};
use super::StoreError;
use crate::admission::facts::Scoped;
use crate::wake::{OrganizationId, ProjectId, UtcMicros};

/// The queue. Give it a store with connections of its own: who claims must not wait behind lanes.
pub trait QueueStore: Clone + Send + Sync + 'static {
    /// Takes runs: each from the organization with the least under way for its weight, the least
    /// served of those that are level; within it the first of all its projects' queues. Never over a
    /// ceiling, never of what is paused, never two of one project at a time, never one whose waiting
    /// time is over (that one ends as expired instead).
    ///
    /// A request that is repeated by its `claim_id` gets the runs that it got, as long as one of
    /// them has not been started or returned, in the order of their places in the queue; within an
    /// organization that is the order in which they were taken.
    fn claim(
        &self,
        request: &ClaimRequest,
    ) -> impl Future<Output = Result<Vec<ClaimedRun>, StoreError>> + Send;

    /// Starts a claimed run within its lease, and renews that.
    fn start(
        &self,
        held: &Held,
        lease_until: UtcMicros,
        now: UtcMicros,
    ) -> impl Future<Output = Result<StartAnswer, StoreError>> + Send;

    /// Renews the lease of a run that is held, claimed or running, and says whether it is to be
    /// cancelled.
    fn heartbeat(
        &self,
        held: &Held,
        lease_until: UtcMicros,
        now: UtcMicros,
    ) -> impl Future<Output = Result<HeartbeatAnswer, StoreError>> + Send;

    /// Ends a run that is held.
    fn finish(
        &self,
        request: &FinishRequest,
    ) -> impl Future<Output = Result<FinishAnswer, StoreError>> + Send;

    /// Cancels: a queued run at once, one under way by asking its runner.
    fn cancel(
        &self,
        request: &CancelRequest,
    ) -> impl Future<Output = Result<CancelAnswer, StoreError>> + Send;

    /// Returns claimed runs whose lease is over to their places in the queue, at most `runs_max` of
    /// them; those that are to be cancelled end as cancelled.
    fn return_lapsed(
        &self,
        now: UtcMicros,
        runs_max: u32,
    ) -> impl Future<Output = Result<Vec<MovedRun>, StoreError>> + Send;

    /// Ends running runs whose lease is over as failed, reason `lease_lost`.
    fn end_lapsed(
        &self,
        now: UtcMicros,
        runs_max: u32,
    ) -> impl Future<Output = Result<Vec<MovedRun>, StoreError>> + Send;

    /// Ends queued runs whose waiting time is over as expired, reason `waited_too_long`.
    fn expire(
        &self,
        now: UtcMicros,
        runs_max: u32,
    ) -> impl Future<Output = Result<Vec<MovedRun>, StoreError>> + Send;

    /// Ends runs under way whose cancellation was asked for at or before `asked_until` and has not
    /// been confirmed, as cancelled.
    fn end_unconfirmed(
        &self,
        asked_until: UtcMicros,
        now: UtcMicros,
        runs_max: u32,
    ) -> impl Future<Output = Result<Vec<MovedRun>, StoreError>> + Send;

    /// How much waits and is under way: on the platform, and in these organizations and projects.
    fn depth(
        &self,
        organizations: &[OrganizationId],
        projects: &[Scoped<ProjectId>],
    ) -> impl Future<Output = Result<QueueDepth, StoreError>> + Send;

    /// The oldest events that are still to be published. They stay until they are deleted.
    fn take_events(
        &self,
        events_max: u32,
    ) -> impl Future<Output = Result<Vec<RunEvent>, StoreError>> + Send;

    /// Deletes events that are published, by [`RunEvent::id`].
    fn delete_events(&self, ids: &[i64]) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Depths by what they are of; what is not there has nothing waiting and nothing under way.
pub(super) type DepthsOf<T> = HashMap<T, Depth>;

/// What one claim is given.
#[derive(Debug, Default, Clone)]
pub(super) struct Given {
    /// Each with its place in its queue.
    runs: Vec<(i64, ClaimedRun)>,
    /// It was given before.
    again: bool,
}

impl Given {
    /// One run more.
    pub(super) fn add(&mut self, place: i64, run: ClaimedRun, again: bool) {
        self.runs.push((place, run));
        self.again |= again;
    }

    /// Another claim of the same transaction was given the same.
    pub(super) fn again(&mut self) {
        self.again = true;
    }

    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// In the order in which they were taken. Of what is given again only that order is known which
    /// the places say, within an organization the same.
    pub(super) fn in_order(mut self) -> Vec<ClaimedRun> {
        if self.again {
            self.runs.sort_by_key(|(place, run)| (*place, run.run_id));
        }
        self.runs.into_iter().map(|(_, run)| run).collect()
    }
}

/// A change that its row allows whenever it is looked at, and never when it is made.
pub(super) fn unsettled() -> StoreError {
    StoreError::Unavailable { error: "the run is being changed by somebody else".to_owned() }
}
