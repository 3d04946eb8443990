//! Where claims wait for work, so that nobody polls.
//!
//! One task has the line (`line`) and looks at the queue when somebody comes, when it is told that
//! there may be work (`work`: a lane of this worker, another replica), and otherwise now and then.
//! Several claims are served by one transaction, in the order of their coming.
//!
//! The order is this worker's: replicas are asked by nats-server at random, and each has a line.

use std::future::Future;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::line::{Ask, Line, Waiting};
use super::work::Work;
use crate::control::{ControlError, ErrorCode};
use crate::error_text::one_line;
use crate::metrics::Metrics;
use crate::shutdown::Shutdown;
use crate::store::StoreError;

/// Most claims of one transaction: each waits for all of them.
pub const CLAIMS_MAX: usize = 32;
/// After a look that gave nothing, signals are gathered for so long at least, and for as long as that
/// look took: a flood of them costs the database no more than half of a connection.
const GATHER_MIN: Duration = Duration::from_millis(5);

/// Where runs come from.
pub trait Source: Send + Sync + 'static {
    /// A run.
    type Run: Send + 'static;

    /// Claims for each of these, in order and in one transaction.
    fn claim(
        &self,
        asks: &[Ask],
    ) -> impl Future<Output = Result<Vec<Vec<Self::Run>>, StoreError>> + Send;
}

/// Limits of a desk.
#[derive(Debug, Clone, Copy)]
pub struct DeskOptions {
    /// Most claims that wait.
    pub waiters_max: usize,
    /// How often to look while claims wait and nobody says that there is work.
    pub look_again: Duration,
}

/// What a desk listens to.
#[derive(Debug, Clone)]
pub struct Signals {
    /// Work that this worker made.
    pub here: Work,
    /// Work that another replica made.
    pub elsewhere: Work,
}

type Answer<R> = oneshot::Sender<Result<Vec<R>, ControlError>>;

/// Where one claims. Clones share it.
#[derive(Debug)]
pub struct Desk<R> {
    arriving: mpsc::Sender<Waiting<Answer<R>>>,
}

impl<R> Clone for Desk<R> {
    fn clone(&self) -> Self {
        Self { arriving: self.arriving.clone() }
    }
}

impl<R: Send + 'static> Desk<R> {
    /// A desk, and what has to be polled for as long as it is open.
    pub fn open<S: Source<Run = R>>(
        source: S,
        options: DeskOptions,
        signals: &Signals,
        metrics: Metrics,
        shutdown: Shutdown,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, arriving) = mpsc::channel(options.waiters_max);
        let clerk = Clerk {
            source,
            line: Line::new(options.waiters_max),
            arriving,
            here: signals.here.listen(),
            elsewhere: signals.elsewhere.listen(),
            look_again: options.look_again,
            next_look: Instant::now(),
            not_before: Instant::now(),
            metrics,
        };
        (Self { arriving: sender }, clerk.attend(shutdown))
    }

    /// Runs, as soon as there are any; none where there were none for as long as this waits.
    ///
    /// # Errors
    /// `busy` where too many wait already, `unavailable` where the database does not answer.
    pub async fn claim(&self, ask: Ask, wait: Duration) -> Result<Vec<R>, ControlError> {
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting::new(ask, Instant::now() + wait, answer);
        self.arriving.try_send(waiting).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => busy(),
            mpsc::error::TrySendError::Closed(_) => ending(),
        })?;
        answered.await.unwrap_or_else(|_| Err(ending()))
    }
}

fn busy() -> ControlError {
    ControlError::new(ErrorCode::Busy, "too many claims wait at this worker; ask again")
}

fn ending() -> ControlError {
    ControlError::new(ErrorCode::Unavailable, "this worker is about to end; ask again")
}

/// Who serves.
struct Clerk<S: Source> {
    source: S,
    line: Line<Answer<S::Run>>,
    arriving: mpsc::Receiver<Waiting<Answer<S::Run>>>,
    here: watch::Receiver<()>,
    elsewhere: watch::Receiver<()>,
    look_again: Duration,
    /// When to look although nobody says anything.
    next_look: Instant,
    /// Signals are gathered until then.
    not_before: Instant,
    metrics: Metrics,
}

impl<S: Source> Clerk<S> {
    async fn attend(mut self, shutdown: Shutdown) {
        loop {
            let look = {
                let waits = !self.line.is_empty();
                let told = told(&mut self.here, &mut self.elsewhere, self.not_before);
                let over = self.line.next_over().unwrap_or(self.next_look);
                tokio::select! {
                    biased;
                    () = shutdown.requested() => break,
                    arrived = self.arriving.recv() => match arrived {
                        Some(arrived) => {
                            enter(&mut self.line, arrived);
                            true
                        }
                        None => break,
                    },
                    () = told, if waits => true,
                    () = sleep_until(self.next_look), if waits => true,
                    () = sleep_until(over), if waits => false,
                }
            };
            while let Ok(arrived) = self.arriving.try_recv() {
                enter(&mut self.line, arrived);
            }
            self.line.leave(oneshot::Sender::is_closed);
            let look = look || self.line.owes_a_look(Instant::now());
            if look && !self.line.is_empty() {
                self.look().await;
            }
            for answer in self.line.over(Instant::now()) {
                // Whoever has gone away meanwhile misses nothing.
                let _ = answer.send(Ok(Vec::new()));
            }
            self.metrics.set_claims_waiting(self.line.len());
        }
        self.arriving.close();
        while let Ok(arrived) = self.arriving.try_recv() {
            let _ = arrived.answer.send(Err(ending()));
        }
        for answer in self.line.close() {
            let _ = answer.send(Ok(Vec::new()));
        }
        self.metrics.set_claims_waiting(0);
    }

    /// Serves whom there is work for, from the front of the line.
    async fn look(&mut self) {
        // What is announced from here on is seen by the next look.
        self.here.mark_unchanged();
        self.elsewhere.mark_unchanged();
        let began = Instant::now();
        let mut served_any = false;
        self.line.begin();
        loop {
            let asks = self.line.next(CLAIMS_MAX);
            let started = Instant::now();
            let given = self.source.claim(&asks).await;
            self.metrics.claims_took(started.elapsed());
            let given = match given {
                Ok(given) => given,
                Err(error) => return self.note(&error),
            };
            let served = self.line.serve(given);
            for (answer, runs) in served.answers {
                served_any = true;
                if answer.send(Ok(runs)).is_err() {
                    // They go back to their places once the lease is over.
                    tracing::warn!("whoever claimed has gone away before there was work");
                }
            }
            if !served.more {
                break;
            }
        }
        let now = Instant::now();
        self.next_look = now + self.look_again;
        self.not_before = if served_any { now } else { now + GATHER_MIN.max(now - began) };
    }

    /// The database does not answer: who need not wait any longer is told so.
    fn note(&mut self, error: &StoreError) {
        let now = Instant::now();
        let text = one_line(error);
        tracing::warn!(error = text, "claims wait for the database");
        for answer in self.line.failed(now) {
            let error = ControlError::new(ErrorCode::Unavailable, text.clone());
            let _ = answer.send(Err(error));
        }
        self.next_look = now + self.look_again;
        self.not_before = self.next_look;
    }
}

/// Returns once there may be work, and not before then.
async fn told(
    here: &mut watch::Receiver<()>,
    elsewhere: &mut watch::Receiver<()>,
    not_before: Instant,
) {
    sleep_until(not_before).await;
    tokio::select! {
        Ok(()) = here.changed() => {}
        Ok(()) = elsewhere.changed() => {}
        else => std::future::pending().await,
    }
}

fn enter<R>(line: &mut Line<Answer<R>>, arrived: Waiting<Answer<R>>) {
    if line.is_full() {
        line.leave(oneshot::Sender::is_closed);
    }
    if let Err(refused) = line.enter(arrived) {
        let _ = refused.answer.send(Err(busy()));
    }
}

#[cfg(test)]
mod tests;
