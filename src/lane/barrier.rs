//! The barrier: after a change of owner, or a gap among the deliveries, nothing is decided until
//! everything that is unacknowledged is here.
//!
//! Redeliveries after a hand-over arrive shuffled and behind new messages, whatever the time-outs;
//! deciding them as they come would break the order within a task.

use std::sync::Arc;

use crate::intake::{Delivery, LaneInfo};

/// Watches deliveries for a change of owner or a gap.
#[derive(Debug, Default)]
pub struct Barrier {
    pin_id: Option<Arc<str>>,
    last_consumer_sequence: Option<u64>,
    raised: bool,
    times_raised: u64,
    observed: u64,
}

/// The barrier as it was when the server was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    times_raised: u64,
    observed: u64,
}

/// Why the barrier went up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raised {
    /// The lane is ours under a new pin.
    NewPin,
    /// A delivery was lost on its way here.
    Gap,
}

impl Barrier {
    /// Looks at a delivery. The first one of all raises the barrier too.
    pub fn observe(&mut self, delivery: &Delivery) -> Option<Raised> {
        let expected = self.last_consumer_sequence.map(|last| last + 1);
        let raised = if self.pin_id != delivery.pin_id || expected.is_none() {
            Some(Raised::NewPin)
        } else if expected != Some(delivery.consumer_sequence) {
            Some(Raised::Gap)
        } else {
            None
        };
        self.pin_id.clone_from(&delivery.pin_id);
        self.last_consumer_sequence = Some(delivery.consumer_sequence);
        self.observed += 1;
        if raised.is_some() {
            self.raised = true;
            self.times_raised += 1;
        }
        raised
    }

    /// Raises the barrier again: what is held may not be all of what is unacknowledged, for some of
    /// it may be acknowledged already.
    pub fn doubt(&mut self) {
        self.raised = true;
        self.times_raised += 1;
    }

    /// To be taken when the server is asked, and given back with its answer.
    #[must_use]
    pub fn asked(&self) -> Asked {
        Asked { times_raised: self.times_raised, observed: self.observed }
    }

    /// Whether somebody else acknowledged some of what is held: fewer are unacknowledged, although
    /// nothing has arrived since the server was asked. Were something to arrive in between, the
    /// answer would be older than what is held, and say nothing.
    #[must_use]
    pub fn is_acknowledged_elsewhere(&self, info: &LaneInfo, asked: Asked, held: usize) -> bool {
        asked == self.asked() && info.unacknowledged < held as u64
    }

    /// Whether nobody has the lane, so that nothing more comes of what is missing: another worker may
    /// keep it, as an operator's unpin amid a hand-over or a server's restart leaves it. Where the
    /// consumer may deliver nothing more, the server pins nobody; two workers that each kept their
    /// part for themselves would wait for each other for ever. To be asked only where the barrier
    /// cannot be lowered.
    #[must_use]
    pub fn is_left_to_nobody(&self, info: &LaneInfo, asked: Asked) -> bool {
        asked == self.asked() && info.pin_id.is_none()
    }

    /// Whether nothing may be decided.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.raised
    }

    /// The pin of the last delivery.
    #[must_use]
    pub fn pin_id(&self) -> Option<&Arc<str>> {
        self.pin_id.as_ref()
    }

    /// Whether the server says that the pin is somebody else's. Nobody's is not: the next pull may
    /// take it again, under a new id, which raises the barrier.
    #[must_use]
    pub fn is_pinned_elsewhere(&self, info: &LaneInfo) -> bool {
        info.pin_id.is_some() && info.pin_id != self.pin_id
    }

    /// Lowers the barrier if what is unacknowledged is exactly what is held: as many, none of them
    /// at or below the server's floor or beyond what it knows to have delivered, and under our pin.
    /// A server that crashed may have forgotten what is held, and count what is missing. An answer
    /// to what was asked before the barrier went up, or before the last arrival, says nothing: its
    /// number may be that of what was lost, made up for by what arrived since.
    pub fn try_lower(&mut self, info: &LaneInfo, asked: Asked, held: &[u64]) -> bool {
        let all_here = asked == self.asked()
            && info.unacknowledged == held.len() as u64
            && held.iter().all(|sequence| (info.ack_floor + 1..=info.delivered).contains(sequence))
            && !self.is_pinned_elsewhere(info);
        if all_here {
            self.raised = false;
        }
        all_here
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intake::tests::delivery as unpinned;

    fn delivery(consumer_sequence: u64, pin: &str) -> Delivery {
        let pin_id = Some(Arc::from(pin));
        Delivery { pin_id, ..unpinned(consumer_sequence, consumer_sequence) }
    }

    fn info(unacknowledged: u64, ack_floor: u64, pin: Option<&str>) -> LaneInfo {
        let pin_id = pin.map(Arc::from);
        LaneInfo { unacknowledged, ack_floor, delivered: 100, pin_id, ..LaneInfo::default() }
    }

    #[test]
    fn a_new_pin_or_a_gap_raises_the_barrier_and_order_does_not() {
        let mut barrier = Barrier::default();
        for (sequence, pin, raised) in [
            (7, "a", Some(Raised::NewPin)),
            (8, "a", None),
            (10, "a", Some(Raised::Gap)),
            (11, "a", None),
            (12, "b", Some(Raised::NewPin)),
            (13, "b", None),
            (12, "b", Some(Raised::Gap)),
        ] {
            assert_eq!(barrier.observe(&delivery(sequence, pin)), raised, "{sequence} under {pin}");
        }
    }

    #[test]
    fn the_barrier_is_lowered_only_by_exactly_what_is_held() {
        for (what, asked, held, lowered) in [
            ("everything is here", info(2, 4, Some("a")), vec![5, 9], true),
            ("nothing is out", info(0, 9, Some("a")), vec![], true),
            ("nobody is pinned just now", info(1, 4, None), vec![5], true),
            ("one is still out", info(3, 4, Some("a")), vec![5, 9], false),
            ("one was acknowledged by the last owner", info(1, 4, Some("a")), vec![5, 9], false),
            ("the floor is past one", info(2, 5, Some("a")), vec![5, 9], false),
            ("the pin is elsewhere", info(2, 4, Some("b")), vec![5, 9], false),
        ] {
            let mut barrier = Barrier::default();
            barrier.observe(&delivery(1, "a"));
            let now = barrier.asked();
            assert_eq!(barrier.try_lower(&asked, now, &held), lowered, "{what}");
            assert_eq!(barrier.is_raised(), !lowered, "{what}");
        }
    }

    #[test]
    fn a_doubt_is_not_lifted_by_an_answer_from_before_it() {
        let mut barrier = Barrier::default();
        barrier.observe(&delivery(1, "a"));
        let asked = barrier.asked();
        assert!(barrier.try_lower(&info(1, 0, Some("a")), asked, &[1]));
        barrier.doubt();
        assert!(!barrier.try_lower(&info(1, 0, Some("a")), asked, &[1]));
        assert!(barrier.is_raised());
        assert!(barrier.try_lower(&info(1, 0, Some("a")), barrier.asked(), &[1]));
    }

    #[test]
    fn what_the_server_forgot_in_a_crash_does_not_make_up_for_what_is_missing() {
        let mut barrier = Barrier::default();
        barrier.observe(&delivery(2, "a"));
        // 2 is the last owner's; 3 was delivered here, and the server does not know it any more.
        let forgetful = |delivered| LaneInfo { delivered, ..info(1, 0, None) };
        assert!(!barrier.try_lower(&forgetful(2), barrier.asked(), &[3]));
        assert!(barrier.try_lower(&forgetful(3), barrier.asked(), &[3]));
    }

    #[test]
    fn what_arrived_after_the_question_is_not_taken_for_acknowledged() {
        let mut barrier = Barrier::default();
        barrier.observe(&delivery(1, "a"));
        let asked = barrier.asked();
        assert!(barrier.is_acknowledged_elsewhere(&info(0, 0, Some("a")), asked, 1));
        barrier.observe(&delivery(2, "a"));
        assert!(!barrier.is_acknowledged_elsewhere(&info(1, 0, Some("a")), asked, 2));
        assert!(!barrier.is_acknowledged_elsewhere(&info(2, 0, Some("a")), barrier.asked(), 2));
        assert!(barrier.is_acknowledged_elsewhere(&info(1, 0, Some("a")), barrier.asked(), 2));
    }

    #[test]
    fn what_arrived_after_the_question_does_not_make_up_for_what_is_missing() {
        let mut barrier = Barrier::default();
        barrier.observe(&delivery(1, "a"));
        assert!(barrier.try_lower(&info(1, 0, Some("a")), barrier.asked(), &[1]));
        // The server sends 2, which is lost, and 3; it is asked, and 4 overtakes its answer.
        assert_eq!(barrier.observe(&delivery(3, "a")), Some(Raised::Gap));
        let asked = barrier.asked();
        barrier.observe(&delivery(4, "a"));
        assert!(!barrier.try_lower(&info(2, 1, Some("a")), asked, &[3, 4]));
        assert!(!barrier.try_lower(&info(3, 1, Some("a")), barrier.asked(), &[3, 4]));
        assert!(barrier.is_raised());
    }

    #[test]
    fn what_is_held_of_a_lane_that_nobody_has_is_let_go() {
        let mut barrier = Barrier::default();
        barrier.observe(&delivery(1, "a"));
        let asked = barrier.asked();
        assert!(barrier.is_left_to_nobody(&info(2, 0, None), asked));
        assert!(!barrier.is_left_to_nobody(&info(2, 0, Some("a")), asked), "it is ours");
        barrier.observe(&delivery(2, "b"));
        assert!(!barrier.is_left_to_nobody(&info(2, 0, None), asked), "an older answer");
    }

    #[test]
    fn an_answer_from_before_the_gap_does_not_lower_the_barrier() {
        let mut barrier = Barrier::default();
        barrier.observe(&delivery(9, "a"));
        assert!(barrier.try_lower(&info(1, 8, Some("a")), barrier.asked(), &[9]));
        // The server has sent 10, which is lost, and is asked; then 11 arrives.
        let asked = barrier.asked();
        assert_eq!(barrier.observe(&delivery(11, "a")), Some(Raised::Gap));
        assert!(!barrier.try_lower(&info(1, 9, Some("a")), asked, &[11]));
        assert!(barrier.is_raised());
    }
}
