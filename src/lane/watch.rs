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
    }

    /// Whether the next look is to tell what became of what waited at an earlier one.
    #[must_use]
    pub fn is_counting(&self) -> bool {
        self.mark.is_some()
    }

    /// Draws the conclusions from a look at the lane, and then at its stream.
    pub fn look(&mut self, info: &LaneInfo, stream: &StreamView) -> Option<Lost> {
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
mod tests {
    use super::*;
    use crate::intake::tests::delivery;
    use crate::wake::UtcMicros;

    fn arrives(watch: &mut Watch, sequence: u64, nth: u64) {
        watch.observe(&delivery(sequence, nth));
    }

    fn info(delivered: u64, last_delivery: u64, pending: u64) -> LaneInfo {
        LaneInfo { pending, delivered, last_delivery, ..LaneInfo::default() }
    }

    /// A stream of which nothing before `first` is left.
    fn stream(first: u64, last: u64) -> StreamView {
        StreamView {
            created: UtcMicros::from_micros(0),
            first_sequence: first,
            last_sequence: last,
            removed_amid: 0,
        }
    }

    fn watching() -> Watch {
        let mut watch = Watch::new(0);
        arrives(&mut watch, 7, 1);
        watch.ask();
        // Behind 7 wait three of this lane, up to 20.
        assert_eq!(watch.look(&info(7, 1, 3), &stream(1, 20)), None);
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
            let lost = watch.look(&info(25, delivered, 0), &stream(1, 25)).map(|lost| lost.wakes);
            assert_eq!(lost, expected, "{arrive:?}");
        }
    }

    #[test]
    fn nothing_is_concluded_before_everything_that_was_sent_is_here() {
        let mut watch = watching();
        watch.ask();
        assert_eq!(watch.look(&info(12, 3, 1), &stream(1, 25)), None, "one of them still waits");
        watch.ask();
        assert_eq!(watch.look(&info(25, 4, 0), &stream(1, 25)), None, "three are on their way");
        for (nth, sequence) in (2..).zip([10, 12, 20]) {
            arrives(&mut watch, sequence, nth);
        }
        assert_eq!(watch.look(&info(25, 4, 0), &stream(1, 25)), None);
    }

    #[test]
    fn what_comes_while_others_wait_is_watched_too() {
        let mut watch = watching();
        watch.ask();
        assert_eq!(watch.look(&info(7, 1, 5), &stream(1, 30)), None, "two more came");
        watch.ask();
        let lost = watch.look(&info(30, 1, 0), &stream(1, 30)).map(|lost| (lost.wakes, lost.up_to));
        assert_eq!(lost, Some((5, 30)), "and all went");
    }

    #[test]
    fn an_answer_older_than_what_arrived_since_counts_it_all_the_same() {
        let mut watch = Watch::new(0);
        watch.ask();
        arrives(&mut watch, 8, 1);
        // The server answered before it sent 8.
        assert_eq!(watch.look(&info(7, 0, 1), &stream(1, 8)), None);
        watch.ask();
        assert_eq!(watch.look(&info(8, 1, 0), &stream(1, 8)), None);
    }

    #[test]
    fn what_overtook_an_answer_is_not_taken_for_more_that_waits() {
        let mut watch = watching();
        watch.ask();
        for (nth, sequence) in (2..).zip([10, 12]) {
            arrives(&mut watch, sequence, nth);
        }
        assert_eq!(watch.look(&info(7, 1, 3), &stream(1, 20)), None, "none was sent yet");
        arrives(&mut watch, 20, 4);
        watch.ask();
        assert_eq!(watch.look(&info(20, 4, 0), &stream(1, 20)), None);
    }

    #[test]
    fn what_comes_while_the_stream_removes_does_not_hide_what_it_removed() {
        let mut watch = watching();
        watch.ask();
        // 10 and 12 have gone with all before 15, and four came.
        assert_eq!(watch.look(&info(7, 1, 5), &stream(15, 30)), None);
        for (nth, sequence) in (2..).zip([20, 22, 25, 28, 30]) {
            arrives(&mut watch, sequence, nth);
        }
        watch.ask();
        let lost = watch.look(&info(30, 6, 0), &stream(15, 30)).map(|lost| lost.wakes);
        assert_eq!(lost, Some(2));
        assert_eq!(watch.look(&info(30, 6, 0), &stream(15, 30)), None, "once");
        assert_eq!(watch.lost().map(|lost| lost.wakes), Some(2), "until it is reported");
        watch.reported();
        assert_eq!(watch.lost(), None);
    }

    #[test]
    fn a_stream_that_begins_behind_what_waited_has_removed_it() {
        let mut watch = watching();
        watch.ask();
        // The consumer may deliver nothing, so its own position stands still.
        let lost = watch.look(&info(7, 1, 4), &stream(24, 40)).map(|lost| (lost.wakes, lost.up_to));
        assert_eq!(lost, Some((3, 20)));
    }

    #[test]
    fn what_was_let_go_and_does_not_come_again_was_removed() {
        for (decided, held, expected) in [
            (7, &[10, 12][..], None),
            (7, &[12], Some((9, 10, 1))),
            (7, &[], Some((9, 12, 2))),
            // Its acknowledgement was on its way.
            (10, &[], Some((11, 12, 1))),
        ] {
            let mut watch = watching();
            arrives(&mut watch, 10, 2);
            arrives(&mut watch, 12, 3);
            watch.let_go([10, 12].into_iter());
            watch.lowered(&info(12, 3, 0));
            let lost = watch.taken_up(decided, |sequence| held.contains(&sequence));
            assert_eq!(lost.map(|lost| (lost.after, lost.up_to, lost.wakes)), expected);
            assert_eq!(watch.taken_up(decided, |_| false), None, "once");
        }
        let mut watch = watching();
        watch.let_go([10].into_iter());
        arrives(&mut watch, 12, 9);
        watch.lowered(&info(12, 9, 0));
        assert_eq!(watch.taken_up(7, |_| false), None, "another worker may have decided it");

        let mut watch = watching();
        arrives(&mut watch, 10, 2);
        watch.let_go([10].into_iter());
        watch.lowered(&info(7, 2, 0));
        assert_eq!(watch.taken_up(7, |_| false), None, "the broker forgot that it delivered it");
        arrives(&mut watch, 10, 3);
        watch.lowered(&info(10, 3, 0));
        assert_eq!(watch.taken_up(7, |_| false), None, "it came again");
    }

    #[test]
    fn a_missing_delivery_or_a_stream_that_lost_its_end_begins_anew() {
        let mut watch = watching();
        arrives(&mut watch, 12, 3);
        watch.ask();
        assert_eq!(watch.look(&info(25, 3, 0), &stream(1, 25)), None);
        let mut watch = watching();
        assert_eq!(watch.look(&info(19, 1, 0), &stream(1, 19)), None);
    }
}
