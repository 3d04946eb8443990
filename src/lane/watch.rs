//! Notices wakes that the stream removed before they were delivered, while a lane is worked.
//!
//! A look at the lane says how many of its messages wait on the stream. Once deliveries are past
//! the stream's end of then, as many must have arrived; what did not was removed. The number is never
//! too large: of what arrived between the two questions of one look nothing is claimed.

use crate::intake::{BrokerError, Delivery, LaneConsumer, LaneInfo};

/// What the server says of a lane, and then where its stream ends, if that is of use.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The lane.
    pub info: LaneInfo,
    /// The last sequence that the stream issued, asked after the lane.
    pub last_sequence: Option<u64>,
}

/// Asks. The order of the two questions is what keeps [`Watch::look`] from claiming too much.
pub(super) async fn look<C: LaneConsumer>(
    consumer: &C,
    counting: bool,
) -> Result<Seen, BrokerError> {
    let info = consumer.info().await?;
    let last_sequence = if counting || info.pending > 0 {
        Some(consumer.stream().await?.last_sequence)
    } else {
        None
    };
    Ok(Seen { info, last_sequence })
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

/// What waited on the stream at one look.
#[derive(Debug, Clone, Copy)]
struct Mark {
    after: u64,
    up_to: u64,
    waiting: u64,
    arrived: u64,
}

impl Mark {
    fn covers(&self, sequence: u64) -> bool {
        self.after < sequence && sequence <= self.up_to
    }
}

/// Counts what arrives against what waited.
#[derive(Debug)]
pub struct Watch {
    lane: u32,
    mark: Option<Mark>,
    /// First deliveries since the server was asked: its answer may be older than they are.
    since_asked: Vec<u64>,
    last_delivery: u64,
}

impl Watch {
    /// Of a lane, from now on.
    #[must_use]
    pub fn new(lane: u32) -> Self {
        Self { lane, mark: None, since_asked: Vec::new(), last_delivery: 0 }
    }

    /// Looks at a delivery.
    pub fn observe(&mut self, delivery: &Delivery) {
        self.last_delivery = delivery.consumer_sequence;
        if delivery.deliveries > 1 {
            return;
        }
        let sequence = delivery.message.sequence;
        self.since_asked.push(sequence);
        if let Some(mark) = self.mark.as_mut().filter(|mark| mark.covers(sequence)) {
            mark.arrived += 1;
        }
    }

    /// Begins anew: a delivery was lost on its way, or the lane changed hands, and what waited then
    /// may arrive as a redelivery.
    pub fn forget(&mut self) {
        self.mark = None;
    }

    /// To be called when the server is asked for what [`Watch::look`] is given.
    pub fn ask(&mut self) {
        self.since_asked.clear();
    }

    /// Whether the next look is to tell what became of what waited at an earlier one.
    #[must_use]
    pub fn is_counting(&self) -> bool {
        self.mark.is_some()
    }

    /// Draws the conclusions from a look at the lane, and then at the end of its stream.
    pub fn look(&mut self, info: &LaneInfo, last_sequence: u64) -> Option<Lost> {
        if let Some(mark) = self.mark {
            // A broker that lost what it had stored issues those sequences again.
            let same_stream = mark.up_to <= last_sequence;
            let passed = info.delivered >= mark.up_to || info.pending == 0;
            if same_stream && !passed {
                self.extend(info, last_sequence);
                return None;
            }
            if same_stream && self.last_delivery < info.last_delivery {
                return None;
            }
            self.mark = None;
            let wakes = mark.waiting.saturating_sub(mark.arrived);
            if same_stream && wakes > 0 {
                return Some(Lost {
                    lane: Some(self.lane),
                    after: mark.after,
                    up_to: mark.up_to,
                    wakes,
                });
            }
        }
        if info.pending > 0 {
            let mut mark = Mark {
                after: info.delivered,
                up_to: last_sequence,
                waiting: info.pending,
                arrived: 0,
            };
            let arrived = self.since_asked.iter().filter(|sequence| mark.covers(**sequence));
            mark.arrived = arrived.count() as u64;
            self.mark = Some(mark);
        }
        None
    }

    /// Takes in what came to the stream since the mark was made. Of the mark at most as many still
    /// wait as have not arrived, so what waits beyond them is new.
    fn extend(&mut self, info: &LaneInfo, last_sequence: u64) {
        let Some(mark) = self.mark.as_mut() else { return };
        let end = mark.up_to;
        let still_waiting = mark.waiting.saturating_sub(mark.arrived);
        mark.waiting += info.pending.saturating_sub(still_waiting);
        mark.up_to = last_sequence;
        // Deliveries are in order, so of what is new only what came after the answer can be here.
        let arrived = self.since_asked.iter().filter(|at| end < **at && **at <= last_sequence);
        mark.arrived += arrived.count() as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::wake::UtcMicros;
    use crate::wake::decode::Message;

    fn arrives(watch: &mut Watch, sequence: u64, nth: u64) {
        watch.observe(&Delivery {
            message: Message {
                stream: Arc::from("WAKES"),
                sequence,
                stored_at_nanos: 0,
                requested_at: UtcMicros::from_micros(0),
                subject: Arc::from("wakes.0.p.o.t"),
                body: bytes::Bytes::new(),
                traceparent: None,
                outcome_to: None,
            },
            consumer_sequence: nth,
            deliveries: 1,
            pending: 0,
            pin_id: None,
            reply: Arc::from("reply"),
        });
    }

    fn info(delivered: u64, last_delivery: u64, pending: u64) -> LaneInfo {
        LaneInfo { pending, delivered, last_delivery, ..LaneInfo::default() }
    }

    fn watching() -> Watch {
        let mut watch = Watch::new(0);
        arrives(&mut watch, 7, 1);
        watch.ask();
        // Behind 7 wait three of this lane, up to 20.
        assert_eq!(watch.look(&info(7, 1, 3), 20), None);
        watch
    }

    #[test]
    fn what_waited_and_did_not_arrive_was_removed() {
        for (arrive, expected) in [
            (&[10, 12, 20][..], None),
            (&[10, 20][..], Some(1)),
            (&[][..], Some(3)),
            // What came later is none of those that waited.
            (&[21, 22, 23][..], Some(3)),
        ] {
            let mut watch = watching();
            for (nth, sequence) in (2..).zip(arrive) {
                arrives(&mut watch, *sequence, nth);
            }
            watch.ask();
            let delivered = 1 + arrive.len() as u64;
            let lost = watch.look(&info(25, delivered, 0), 25).map(|lost| lost.wakes);
            assert_eq!(lost, expected, "{arrive:?}");
        }
    }

    #[test]
    fn nothing_is_concluded_before_everything_that_was_sent_is_here() {
        let mut watch = watching();
        watch.ask();
        assert_eq!(watch.look(&info(12, 3, 1), 25), None, "one of them still waits");
        watch.ask();
        assert_eq!(watch.look(&info(25, 4, 0), 25), None, "three are on their way");
        for (nth, sequence) in (2..).zip([10, 12, 20]) {
            arrives(&mut watch, sequence, nth);
        }
        assert_eq!(watch.look(&info(25, 4, 0), 25), None);
    }

    #[test]
    fn what_comes_while_others_wait_is_watched_too() {
        let mut watch = watching();
        watch.ask();
        assert_eq!(watch.look(&info(7, 1, 5), 30), None, "two more came");
        watch.ask();
        let lost = watch.look(&info(30, 1, 0), 30).map(|lost| (lost.wakes, lost.up_to));
        assert_eq!(lost, Some((5, 30)), "and all went");
    }

    #[test]
    fn an_answer_older_than_what_arrived_since_counts_it_all_the_same() {
        let mut watch = Watch::new(0);
        watch.ask();
        arrives(&mut watch, 8, 1);
        // The server answered before it sent 8.
        assert_eq!(watch.look(&info(7, 0, 1), 8), None);
        watch.ask();
        assert_eq!(watch.look(&info(8, 1, 0), 8), None);
    }

    #[test]
    fn a_gap_or_a_stream_that_lost_its_end_begins_anew() {
        let mut watch = watching();
        watch.forget();
        assert_eq!(watch.look(&info(25, 1, 0), 25), None);
        let mut watch = watching();
        assert_eq!(watch.look(&info(19, 1, 0), 19), None);
    }
}
