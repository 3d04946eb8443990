//! Takes a lane up where the database says that it stands, and holds it where that cannot be.
//!
//! What is acknowledged was decided, and the cursor moved in the transaction that decided it. So a
//! wake that is acknowledged and beyond the cursor was decided in a database that is not this one: it
//! was restored from a backup. To go on would leave such wakes out for ever.

use super::Holding;
use super::process::Bench;
use crate::audit::AuditLog;
use crate::intake::{BrokerError, LaneConsumer};
use crate::metrics::HoldCause;
use crate::store::{LaneCursor, Store};

/// What the server had of the lane when its barrier was lowered.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    /// Everything up to here has been delivered.
    pub(super) delivered: u64,
    /// What of it is not acknowledged, ascending.
    pub(super) held: Vec<u64>,
}

impl<S: Store, A: AuditLog, C: LaneConsumer> Bench<S, A, C> {
    /// Reads where the lane stands, and holds until it is told and can be. None when the store
    /// stays away.
    pub(super) async fn take_up(&self, taken: Taken) -> Result<Option<LaneCursor>, BrokerError> {
        let mut delays = self.delays();
        loop {
            let error = match self.store.lane_cursor(&self.lane).await {
                Ok(cursor) => {
                    self.check_stream().await?;
                    // Where some of what is held is decided, it may be acknowledged, and what is not
                    // held be unacknowledged in its place: the lane asks again once it is settled.
                    if taken.held.first().is_some_and(|first| *first <= cursor.decided_sequence) {
                        self.resume();
                        return Ok(Some(cursor));
                    }
                    let known = self.forgotten(cursor, taken.delivered, &taken.held).await?;
                    let Some(sequence) = known else {
                        self.resume();
                        return Ok(Some(cursor));
                    };
                    self.note_behind(cursor, sequence);
                    tokio::time::sleep(delays.next_delay()).await;
                    continue;
                }
                Err(error) => error.to_string(),
            };
            if !self.hold(HoldCause::Store, &error, &mut delays).await {
                return Ok(None);
            }
        }
    }

    /// Whether the lane may be pulled at all: why not, if not. Without a delivery only what lies at
    /// or below the acknowledgement floor is known to be acknowledged.
    pub(crate) async fn may_pull(&self) -> Result<Option<String>, BrokerError> {
        let info = self.consumer.info().await?;
        self.check_stream().await?;
        // A database that is away is held for once there is something to decide.
        let Ok(cursor) = self.store.lane_cursor(&self.lane).await else { return Ok(None) };
        let known = self.forgotten(cursor, info.ack_floor, &[]).await?;
        Ok(known.map(|sequence| {
            // Nobody pulls the lane and so measures it, and that wake waits, if nothing else does.
            let waiting = info.pending + info.unacknowledged;
            self.metrics.set_lane_pending(self.lane.lane, waiting.max(1));
            self.note_behind(cursor, sequence)
        }))
    }

    /// Sequences of a stream that was created anew are of other wakes than those that the cursor is
    /// past.
    async fn check_stream(&self) -> Result<(), BrokerError> {
        let stream = self.lane.stream.to_string();
        if self.consumer.stream().await?.created == self.lane.stream_created_at {
            return Ok(());
        }
        Err(BrokerError::Recreated { stream })
    }

    /// The first wake of the lane beyond the cursor and at or before `up_to` that the stream keeps
    /// and that is not among `held`.
    pub(crate) async fn forgotten(
        &self,
        cursor: LaneCursor,
        up_to: u64,
        held: &[u64],
    ) -> Result<Option<u64>, BrokerError> {
        let mut after = cursor.decided_sequence;
        let within = |sequence: &&u64| **sequence > cursor.decided_sequence && **sequence <= up_to;
        let ends = held.iter().filter(within).copied().chain([up_to.saturating_add(1)]);
        for end in ends {
            if after + 1 < end
                && let Some(sequence) = self.consumer.next_after(after).await?
                && sequence < end
            {
                return Ok(Some(sequence));
            }
            after = end;
        }
        Ok(None)
    }

    /// Says so: once in the log, for as long as it lasts on `/readyz`.
    fn note_behind(&self, cursor: LaneCursor, sequence: u64) -> String {
        let reason = format!(
            "the database is behind the stream: wake {sequence} is acknowledged, and lane {} is \
             decided up to {} only. If the database was restored from a backup, run: wakegate \
             streams rewind",
            self.lane.lane, cursor.decided_sequence
        );
        let holding = Holding { cause: HoldCause::Store, reason: reason.clone() };
        let begins = self.holding.borrow().as_ref() != Some(&holding);
        if begins {
            self.metrics.lane_hold(HoldCause::Store);
            tracing::error!(lane = self.lane.lane, reason, "the lane holds");
            self.holding.send_replace(Some(holding));
        }
        reason
    }
}
