//! What is over: leases, waiting times, cancellations that nobody confirmed, and runs that a pause
//! stops. Each step is one transaction that looks again at what it changes, so any number of replicas
//! may take them at any time; the clock is injected.

use std::time::Duration;

use super::work::Work;
use crate::clock::Clock;
use crate::error_text::one_line;
use crate::metrics::{Metrics, Overdue, QueueState};
use crate::shutdown::Shutdown;
use crate::store::StoreError;
use crate::store::queue::{MovedRun, RunStatus};
use crate::store::runners::RunnerStore;
use crate::wake::UtcMicros;

/// Most runs of one step: it holds the queue's lock for so long.
pub const RUNS_MAX: u32 = 200;

/// What was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kept {
    /// Queued runs that had waited for too long, and expired.
    pub expired: u64,
    /// Claimed runs whose lease was over: back in their places, or ended where they were to be
    /// cancelled.
    pub returned: u64,
    /// Started runs whose lease was over: failed.
    pub lost: u64,
    /// Runs under way that are to end because of a pause.
    pub stopped: u64,
    /// Runs whose cancellation nobody confirmed: ended.
    pub unconfirmed: u64,
}

impl Kept {
    /// Whether anything was.
    #[must_use]
    pub fn is_something(&self) -> bool {
        *self != Self::default()
    }
}

/// Ends what is over, all of it; a step that fails keeps no other from being taken.
///
/// # Errors
/// The first failure, with what was done all the same.
pub async fn keep<S: RunnerStore>(
    store: &S,
    now: UtcMicros,
    cancel_grace: Duration,
) -> (Kept, Result<(), StoreError>) {
    let at = At { now, asked_until: now - cancel_grace };
    let mut kept = Kept::default();
    let done = [
        all(store, Step::Expire, at, &mut kept.expired).await,
        all(store, Step::Return, at, &mut kept.returned).await,
        all(store, Step::Lose, at, &mut kept.lost).await,
        all(store, Step::Stop, at, &mut kept.stopped).await,
        all(store, Step::Confirm, at, &mut kept.unconfirmed).await,
    ];
    (kept, done.into_iter().collect())
}

/// What is looked for.
#[derive(Debug, Clone, Copy)]
enum Step {
    Expire,
    Return,
    Lose,
    Stop,
    Confirm,
}

/// When it is, and until when a cancellation was asked for that is to be confirmed by now.
#[derive(Debug, Clone, Copy)]
struct At {
    now: UtcMicros,
    asked_until: UtcMicros,
}

/// Takes a step until there is nothing left for it.
async fn all<S: RunnerStore>(
    store: &S,
    step: Step,
    At { now, asked_until }: At,
    count: &mut u64,
) -> Result<(), StoreError> {
    loop {
        let moved = match step {
            Step::Expire => store.expire(now, RUNS_MAX).await,
            Step::Return => store.return_lapsed(now, RUNS_MAX).await,
            Step::Lose => store.end_lapsed(now, RUNS_MAX).await,
            Step::Stop => store.cancel_stopped(now, RUNS_MAX).await,
            Step::Confirm => store.end_unconfirmed(asked_until, now, RUNS_MAX).await,
        }?;
        for run in &moved {
            note(run);
        }
        *count += moved.len() as u64;
        if moved.len() < RUNS_MAX as usize {
            return Ok(());
        }
    }
}

fn note(run: &MovedRun) {
    let (run_id, organization_id) = (run.run_id, &run.organization_id);
    match run.status {
        RunStatus::Queued => tracing::info!(%run_id, %organization_id, "a claim was over"),
        status => tracing::info!(%run_id, %organization_id, %status, "a run was overdue"),
    }
}

/// One worker's keepers.
#[derive(Debug, Clone)]
pub struct Keepers<S> {
    /// Where runs are.
    pub store: S,
    /// When it is.
    pub clock: Clock,
    /// How long a runner may take to confirm a cancellation.
    pub cancel_grace: Duration,
    /// How often to look.
    pub interval: Duration,
    /// Where it is announced that a slot is free.
    pub work: Work,
    /// Where it is announced that there is something to be told of runs.
    pub told: Work,
    /// What is counted.
    pub metrics: Metrics,
}

impl<S: RunnerStore> Keepers<S> {
    /// Looks now and then, until the worker is to end.
    pub async fn run(self, shutdown: Shutdown) {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut failing = false;
        loop {
            tokio::select! {
                biased;
                () = shutdown.requested() => return,
                _ = ticks.tick() => {}
            }
            let kept = self.look().await;
            if let Err(error) = &kept
                && !failing
            {
                tracing::warn!(error = one_line(error), "what is overdue waits for the database");
            }
            failing = kept.is_err();
        }
    }

    /// One look.
    async fn look(&self) -> Result<(), StoreError> {
        let (kept, done) = keep(&self.store, self.clock.now(), self.cancel_grace).await;
        self.metrics.overdue(Overdue::Waiting, kept.expired);
        self.metrics.overdue(Overdue::Claim, kept.returned);
        self.metrics.overdue(Overdue::Lease, kept.lost);
        self.metrics.overdue(Overdue::Stopped, kept.stopped);
        self.metrics.overdue(Overdue::Cancellation, kept.unconfirmed);
        if kept.is_something() {
            self.work.announce();
            self.told.announce();
        }
        let depth = self.store.depth(&[], &[]).await?.platform;
        self.metrics.set_queue_runs(QueueState::Queued, depth.queued);
        self.metrics.set_queue_runs(QueueState::Active, depth.active);
        done
    }
}
