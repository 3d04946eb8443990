//! Notices wakes that the stream removed before they were delivered, while a lane is worked.
//!
//! A look at the lane says how many of its messages wait on the stream. Once deliveries are past
//! the stream's end of then, as many must have arrived; what did not was removed. The number is never
//! too large: of what arrived between the two questions of one look nothing is claimed.

use std::collections::{BTreeSet, VecDeque};

use crate::intake::{BrokerError, Delivery, LaneConsumer, LaneInfo, StreamView};

/// What the server says of a lane, and then of its stream, if that is of use.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The lane.
    pub info: LaneInfo,
    /// The stream, asked after the lane.
    pub stream: Option<StreamView>,
}

/// Asks. The order of the two questions is what keeps [`Watch::look`] from claiming too much.
pub(super) async fn look<C: LaneConsumer>(
    consumer: &C,
    counting: bool,
) -> Result<Seen, BrokerError> {
    let info = consumer.info().await?;
    let stream = if counting || info.pending > 0 { Some(consumer.stream().await?) } else { None };
    Ok(Seen { info, stream })
}

/// Wakes that were removed undecided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// The lane, where that is known.
    pub lane: Option<u32>,
    /// They were behind this stream sequence.
    pub after: u64,
    /// And at or before this one.
    pub up_to: u64,
    /// How many.
    pub wakes: u64,
}

/// What waited on the stream at one look, and at those after it while nothing of it was removed.
#[derive(Debug, Clone, Copy)]
struct Mark {
    after: u64,
    up_to: u64,
    waiting: u64,
    arrived: u64,
    /// [`StreamView::removed_amid`] when it was made.
    removed_amid: u64,
}

impl Mark {
    fn covers(&self, sequence: u64) -> bool {
        self.after < sequence && sequence <= self.up_to
    }
}

/// Counts what arrives against what waited. It outlives a term, for a lane that is given up for want
/// of a database mostly comes back to the same worker.
#[derive(Debug)]
pub struct Watch {
    lane: u32,
    mark: Option<Mark>,
    /// First deliveries since the server was asked: its answer may be older than they are.
    since_asked: Vec<u64>,
    last_delivery: u64,
    /// [`Watch::last_delivery`] when the server was asked: it knows of that one, or has forgotten it.
    asked_at: u64,
    /// Delivered, let go undecided when a term ended, and not delivered again since.
    let_go: BTreeSet<u64>,
    /// Delivered up to here when the barrier was lowered last.
    delivered: u64,
    /// Noticed, and not yet reported.
    lost: VecDeque<Lost>,
}

impl Watch {
    /// Of a lane, from now on.
    #[must_use]
    pub fn new(lane: u32) -> Self {
        Self {
            lane,
            mark: None,
            since_asked: Vec::new(),
            last_delivery: 0,
            asked_at: 0,
            let_go: BTreeSet::new(),
            delivered: 0,
            lost: VecDeque::new(),
        }
    }

    /// What is to be reported.
    #[must_use]
    pub fn lost(&self) -> Option<Lost> {
        self.lost.front().copied()
    }

    /// It is reported.
    pub fn reported(&mut self) {
        self.lost.pop_front();
    }

    /// A term ends with these undecided: they are to be delivered again.
    pub fn let_go(&mut self, sequences: impl Iterator<Item = u64>) {
        self.let_go.extend(sequences);
    }

    /// The barrier is lowered: what is held is exactly what is unacknowledged.
    pub fn lowered(&mut self, info: &LaneInfo) {
        self.delivered = info.delivered;
    }

    /// The lane is taken up, decided up to a sequence, with what was held when its barrier was
    /// lowered. What was let go and is neither was removed. Where a broker forgot deliveries in a
    /// crash they lie beyond what is delivered now, and come again as if for the first time.
    pub fn taken_up(&mut self, decided: u64, held: impl Fn(u64) -> bool) -> Option<Lost> {
        let to_come = self.let_go.split_off(&self.delivered.saturating_add(1));
        let gone = |sequence: &u64| *sequence > decided && !held(*sequence);
        let let_go = std::mem::replace(&mut self.let_go, to_come);
        let gone: Vec<u64> = let_go.into_iter().filter(gone).collect();
        let (first, last) = (gone.first()?, gone.last()?);
        Some(self.note(Lost {
            lane: Some(self.lane),
            after: first - 1,
            up_to: *last,
            wakes: gone.len() as u64,
        }))
    }

    fn note(&mut self, lost: Lost) -> Lost {
        self.lost.push_back(lost);
        lost
    }

    /// Looks at a delivery. One that is missing before it went elsewhere or got lost on its way:
    /// what waited may come as a redelivery, or never here.
    pub fn observe(&mut self, delivery: &Delivery) {
        if delivery.consumer_sequence != self.last_delivery + 1 {
            self.mark = None;
            self.let_go.clear();
        }
        self.last_delivery = delivery.consumer_sequence;
        self.let_go.remove(&delivery.message.sequence);
        if delivery.deliveries > 1 {
            return;
        }
        let sequence = delivery.message.sequence;
        self.since_asked.push(sequence);
        if let Some(mark) = self.mark.as_mut().filter(|mark| mark.covers(sequence)) {
            mark.arrived += 1;
        }
    }

    /// To be called when the server is asked for what [`Watch::look`] is given.
    pub fn ask(&mut self) {
        self.since_asked.clear();
        self.asked_at = self.last_delivery;
    }

    /// Whether the next look is to tell what became of what waited at an earlier one.
    #[must_use]
    pub fn is_counting(&self) -> bool {
        self.mark.is_some()
    }

    /// Draws the conclusions from a look at the lane, and then at its stream.
    pub fn look(&mut self, info: &LaneInfo, stream: &StreamView) -> Option<Lost> {
        if info.last_delivery < self.asked_at {
            // Forgotten in a crash: what was delivered waits again, and may go elsewhere under the
            // numbers that are known here.
            (self.mark, self.last_delivery) = (None, info.last_delivery);
            self.let_go.clear();
            return None;
        }
        if let Some(mark) = self.mark {
            // A broker that lost what it had stored issues those sequences again.
            let same_stream = mark.up_to <= stream.last_sequence;
            let position = info.delivered.max(stream.first_sequence.saturating_sub(1));
            if same_stream && position < mark.up_to && info.pending > 0 {
                self.extend(info, stream);
                return None;
            }
            if same_stream && self.last_delivery < info.last_delivery {
                return None;
            }
            self.mark = None;
            let wakes = mark.waiting.saturating_sub(mark.arrived);
            if same_stream && wakes > 0 {
                let (lane, Mark { after, up_to, .. }) = (Some(self.lane), mark);
                return Some(self.note(Lost { lane, after, up_to, wakes }));
            }
        }
        if info.pending > 0 {
            let mut mark = Mark {
                after: info.delivered,
                up_to: stream.last_sequence,
                waiting: info.pending,
                arrived: 0,
                removed_amid: stream.removed_amid,
            };
            mark.arrived = self.arrived_since_asked(&mark, mark.after);
            self.mark = Some(mark);
        }
        None
    }

    /// Takes in what came to the stream since. Where anything may have been removed of what the
    /// mark covers, what is new cannot be told from what is still there, and the mark stays as it
    /// is.
    fn extend(&mut self, info: &LaneInfo, stream: &StreamView) {
        let Some(mut mark) = self.mark else { return };
        if stream.first_sequence > mark.after + 1 || stream.removed_amid != mark.removed_amid {
            return;
        }
        let end = mark.up_to;
        // What overtook the answer still waited in it.
        let overtook = self.arrived_since_asked(&mark, info.delivered);
        let arrived = mark.arrived.saturating_sub(overtook);
        let still_waiting = mark.waiting.saturating_sub(arrived);
        mark.waiting += info.pending.saturating_sub(still_waiting);
        mark.up_to = stream.last_sequence;
        // Deliveries are in order, so of what is new only what came after the answer can be here.
        mark.arrived += self.arrived_since_asked(&mark, end);
        self.mark = Some(mark);
    }

    fn arrived_since_asked(&self, mark: &Mark, after: u64) -> u64 {
        let arrived = self.since_asked.iter().filter(|at| mark.covers(**at) && **at > after);
        arrived.count() as u64
    }
}

#[cfg(test)]
mod tests;
