//! How a term ends: what is finished, what is given back, and what is left to time out.

use futures_util::FutureExt as _;

use super::super::process::ISOLATED_DELIVERIES_MIN;
use super::{Term, TermEnd, next};
use crate::audit::AuditLog;
use crate::intake::LaneConsumer;
use crate::store::Store;

/// Tries to take back an attempt at a wake alone; each has the store's own deadline.
const TAKE_BACK_TRIES: u32 = 3;

impl<S: Store, A: AuditLog, C: LaneConsumer> Term<'_, S, A, C> {
    /// Stops pulling. A shutdown takes in what has arrived, and finishes what is in order; a lost
    /// broker leaves it, for what is here may be somebody else's by then.
    pub(super) fn end(&mut self, end: TermEnd, feed: &mut Option<C::Feed>) {
        if matches!(end, TermEnd::Shutdown) {
            // Whatever has arrived, however much: what is left behind comes again only after
            // `ack_wait`, and the next owner's barrier waits for it.
            while let Some(Ok(delivery)) = tokio::task::unconstrained(next(feed)).now_or_never() {
                self.take_in(delivery);
            }
        } else {
            self.watch.let_go(self.held.keys().copied());
            self.held.clear();
        }
        *feed = None;
        self.ending.get_or_insert(end);
    }

    /// An attempt at a wake alone that was given up, not ended by a crash, does not count.
    pub(super) async fn take_back_attempt(&mut self) {
        let [one] = self.in_work.as_slice() else { return };
        if one.deliveries < ISOLATED_DELIVERIES_MIN {
            return;
        }
        let wake = one.wake_id();
        // The statement that was given up may hold its locks until its deadline ends it.
        for tries_left in (0..TAKE_BACK_TRIES).rev() {
            match self.bench.store.end_isolated(wake).await {
                Ok(()) => return,
                Err(error) if tries_left == 0 => {
                    tracing::warn!(%wake, %error, "an isolated attempt could not be taken back");
                }
                Err(_) => {}
            }
        }
    }

    /// Gives back what is not decided, sends what is acknowledged and not sent, and lets another
    /// worker have the lane at once. What was settled meanwhile is not given back: the server knows.
    pub(super) async fn hand_back(&mut self) {
        for delivery in self.in_work.iter().chain(self.held.values()) {
            let _ = self.bench.consumer.give_back(delivery).await;
        }
        let _ = self.bench.consumer.flush().await;
        // Somebody else's pin is left alone.
        if self.owned
            && let Err(error) = self.bench.consumer.unpin().await
        {
            tracing::debug!(%error, "the lane was not unpinned; its pin will time out");
        }
    }
}
