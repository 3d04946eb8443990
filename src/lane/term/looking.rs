//! What a term concludes from the server's view of its lane.

use super::super::behind::Taken;
use super::super::watch::Seen;
use super::{Term, TermEnd};
use crate::audit::AuditLog;
use crate::intake::{BrokerError, LaneConsumer};
use crate::store::Store;

/// Patrols without a delivery, while messages are pending, after which the pull is built anew.
const QUIET_PATROLS_MAX: u32 = 2;

/// What the server's view of the lane asks for.
pub(super) enum Look {
    /// The term is over.
    End(TermEnd),
    /// The barrier is lowered: read where the lane stands, and go on.
    AllHere(Taken),
}

impl<S: Store, A: AuditLog, C: LaneConsumer> Term<'_, S, A, C> {
    /// Draws the conclusions from the server's view of the lane.
    pub(super) fn look_at(&mut self, seen: &Seen, working: bool) -> Option<Look> {
        let Seen { info, stream } = seen;
        self.pending = info.pending;
        let ours = self.barrier.pin_id().is_some() && !self.barrier.is_pinned_elsewhere(info);
        self.owned = ours;
        self.bench.metrics.set_lane_owned(self.bench.lane.lane, ours);
        let has_work = working || !self.held.is_empty();
        let stuck = self.quiet_patrols >= QUIET_PATROLS_MAX && info.pending > 0 && !has_work;
        if stuck && (ours || info.pin_id.is_none()) {
            let error = "messages are pending and none is delivered".to_owned();
            return Some(Look::End(TermEnd::Broker(BrokerError::Unavailable { error })));
        }
        if !ours {
            if has_work && info.pin_id.is_some() {
                return Some(Look::End(TermEnd::LaneLost));
            }
            self.cursor = None;
            self.report(self.bench.holding.borrow().clone().as_ref());
            return None;
        }
        if self.barrier.is_raised() && !working {
            let held: Vec<u64> = self.held.keys().copied().collect();
            if self.barrier.try_lower(info, self.asked, &held) {
                self.cursor = None;
                self.watch.lowered(info);
                return Some(Look::AllHere(Taken { delivered: info.delivered, held }));
            }
            // Somebody acknowledged what was delivered again here: the last owner, late. Which ones
            // cannot be asked, so all are let go, and those still open come again. So does what
            // lies in two hands with nobody pinned, in one.
            if self.barrier.is_acknowledged_elsewhere(info, self.asked, held.len())
                || self.barrier.is_left_to_nobody(info, self.asked)
            {
                self.watch.let_go(self.held.keys().copied());
                self.held.clear();
            }
        }
        if let Some(stream) = stream
            && !self.barrier.is_raised()
            && let Some(lost) = self.watch.look(info, stream)
        {
            super::super::lost::note(self.health, lost);
        }
        self.measure();
        None
    }
}
