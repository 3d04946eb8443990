//! Reports wakes that the stream removed undecided: nothing can decide them any more, and nothing
//! may pass over them silently.

use super::process::{BatchEnd, Bench};
use super::watch::Lost;
use crate::audit::{AuditClass, AuditEvent, AuditLog};
use crate::health::{Component, ComponentState, Health};
use crate::intake::LaneConsumer;
use crate::metrics::HoldCause;
use crate::schemas::LostWakes;
use crate::store::{BatchRecord, LaneCursor, RecordError, Store};
use crate::wake::WakeId;

impl<S: Store, A: AuditLog, C: LaneConsumer> Bench<S, A, C> {
    /// Audits, moves the lane's cursor past what is lost where nothing before `to` is left to
    /// decide, and counts. At least once: a worker that dies in between leaves it to the next one.
    pub(crate) async fn lose(&self, cursor: LaneCursor, lost: Lost, to: LaneCursor) -> BatchEnd {
        let mut delays = self.delays();
        let recorded = loop {
            match self.store.record(&BatchRecord::new(&self.lane, cursor, cursor)).await {
                Ok(recorded) => break recorded,
                Err(RecordError::LaneLost) => return BatchEnd::LaneLost,
                Err(error) => {
                    if !self.hold(HoldCause::Store, &error.to_string(), &mut delays).await {
                        return BatchEnd::StoreAway;
                    }
                }
            }
        };
        self.audit(recorded, &[self.event(lost)]).await;
        let end = self.pass_over(cursor, to).await;
        if matches!(end, BatchEnd::Settled { .. }) {
            self.metrics.wakes_lost(lost.wakes);
        }
        end
    }

    /// Moves the lane's cursor past what is not there.
    pub(crate) async fn pass_over(&self, cursor: LaneCursor, to: LaneCursor) -> BatchEnd {
        let mut delays = self.delays();
        let moves = BatchRecord::new(&self.lane, cursor, to);
        while let Err(error) = self.store.record(&moves).await {
            // One that was not answered may have moved it.
            match self.store.lane_cursor(&self.lane).await {
                Ok(stands) if stands == to => break,
                Ok(stands) if stands != cursor => return BatchEnd::LaneLost,
                Ok(_) | Err(_) => {}
            }
            if !self.hold(HoldCause::Store, &error.to_string(), &mut delays).await {
                return BatchEnd::StoreAway;
            }
        }
        self.resume();
        BatchEnd::Settled { cursor: to }
    }

    /// Whose they were is gone with them. The id follows from the stream and the last of them, so
    /// that a report made twice is stored once.
    fn event(&self, lost: Lost) -> AuditEvent {
        let created = i128::from(self.lane.stream_created_at.micros()) * 1_000;
        let of = lost.lane.map_or_else(|| "any".to_owned(), |lane| lane.to_string());
        let wake_id =
            WakeId::derive(&format!("{}/lost/{of}", self.lane.stream), lost.up_to, created);
        let record = LostWakes {
            outcome: "lost",
            reason: "removed",
            wakes: lost.wakes,
            stream: self.lane.stream.to_string(),
            lane: lost.lane,
            after_sequence: lost.after,
            up_to_sequence: lost.up_to,
            noticed_at: self.clock.now(),
        };
        AuditEvent {
            wake_id,
            class: AuditClass::Lost,
            reason: "removed".to_owned(),
            organization_token: "-".to_owned(),
            record: record.to_json(),
        }
    }
}

/// Says so at once, in the log and on `/readyz`: the report waits for its turn and for servers. The
/// worker stays ready, for nothing that it could do or that a restart would do brings them back.
pub(crate) fn note(health: &Health, lost: Lost) {
    tracing::error!(
        lane = lost.lane,
        wakes = lost.wakes,
        after_sequence = lost.after,
        up_to_sequence = lost.up_to,
        "wakes were removed from the stream undecided"
    );
    let told = format!(
        "{} wakes were removed from the stream undecided, behind sequence {} and up to {}: see \
         wake-audit.lost.>",
        lost.wakes, lost.after, lost.up_to
    );
    health.set(Component::Streams, ComponentState::Ok, Some(&told));
}
