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
fn what_a_crashed_server_delivers_again_elsewhere_is_not_lost() {
    let mut watch = watching();
    arrives(&mut watch, 10, 2);
    watch.ask();
    assert_eq!(watch.look(&info(7, 1, 1), &stream(1, 10)), None, "10 waits again");
    watch.ask();
    assert_eq!(watch.look(&info(10, 2, 0), &stream(1, 10)), None, "another worker has it");
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
