//! What a term shows of itself: readiness and gauges.

use super::super::{Holding, STANDBY};
use super::Term;
use crate::audit::AuditLog;
use crate::health::{Component, ComponentState};
use crate::intake::LaneConsumer;
use crate::store::Store;
use crate::wake::UtcMicros;

impl<S: Store, A: AuditLog, C: LaneConsumer> Term<'_, S, A, C> {
    /// Readiness of the lane.
    pub(super) fn report(&self, holding: Option<&Holding>) {
        let component = Component::Lane(self.bench.lane.lane);
        match holding {
            Some(holding) => {
                self.health.set(component, ComponentState::Waiting, Some(&holding.reason));
            }
            None if self.cursor.is_some() => self.health.set(component, ComponentState::Ok, None),
            None => self.health.set(component, ComponentState::Standby, Some(STANDBY)),
        }
    }

    /// What waits for this lane, and for how long.
    pub(super) fn measure(&self) {
        let lane = self.bench.lane.lane;
        let waiting = self.held.len() + self.in_work.len();
        self.bench.metrics.set_lane_pending(lane, self.pending + waiting as u64);
        let oldest = self
            .in_work
            .iter()
            .chain(self.held.values())
            .map(|delivery| delivery.message.stored_at_nanos)
            .min()
            .map(|nanos| self.bench.clock.now().since(UtcMicros::from_nanos(nanos)));
        self.bench.metrics.set_lane_oldest_pending(lane, oldest.unwrap_or_default());
    }
}
