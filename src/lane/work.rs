//! Deliveries as they are worked: what of a batch is decided, and what is set aside.

use std::sync::Arc;

use crate::intake::Delivery;
use crate::wake::Wake;
use crate::wake::decode::{Content, Event, RejectReason, Rejection};

/// A delivery and what it says.
pub(super) struct Work {
    pub(super) delivery: Arc<Delivery>,
    pub(super) event: Event,
}

impl Work {
    pub(super) fn wake(&self) -> Option<&Wake> {
        match &self.event.content {
            Content::Wake(wake) => Some(Arc::as_ref(wake)),
            Content::NoWake(_) | Content::Rejected(_) => None,
        }
    }

    pub(super) fn reject(&mut self, reason: RejectReason, fault: String) {
        let body = self.delivery.message.body.clone();
        self.event.content = Content::Rejected(Rejection { reason, fault, body });
    }
}

/// How many events lie before the first undecided wake.
pub(super) fn prefix(works: &[Work], decisions: usize) -> usize {
    let mut undecided = works.iter().enumerate().filter(|(_, work)| work.wake().is_some());
    undecided.nth(decisions).map_or(works.len(), |(index, _)| index)
}

/// Halves the width, or, where one event is alone, sets it aside. Returns what to wait for if there
/// is nothing to set aside: an event without a wake cannot be at fault.
pub(super) fn refine(
    works: &mut [Work],
    width: &mut usize,
    take: usize,
    error: String,
) -> Option<String> {
    if take > 1 {
        *width = take / 2;
        return None;
    }
    *width = 1;
    let work = works.first_mut()?;
    if work.wake().is_none() {
        return Some(error);
    }
    work.reject(RejectReason::Unstorable, error);
    None
}
