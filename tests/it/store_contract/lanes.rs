//! The fence, and attempts at one wake alone.

use wakegate::store::{LaneCursor, LaneKey, RecordError, Store as _};

use super::given::{Lane, MICRO, T0, id, lane, refused, run, wake};
use super::on_every_store;
use super::subject::Subject;

on_every_store!(
    a_new_lane_starts_at_the_streams_start,
    a_batch_moves_only_its_own_lane,
    a_stream_created_anew_starts_its_lanes_anew,
    a_lost_fence_writes_nothing,
    a_batch_that_writes_nothing_still_needs_the_lane,
    a_fence_that_moves_by_nothing_is_checked,
    attempts_alone_are_counted_until_they_end,
    a_ping_answers,
);

async fn a_new_lane_starts_at_the_streams_start<S: Subject>(subject: S) {
    for _ in 0..2 {
        let cursor = subject.store().lane_cursor(&lane(0)).await.unwrap();
        assert_eq!(cursor, LaneCursor::default());
    }
}

async fn a_batch_moves_only_its_own_lane<S: Subject>(subject: S) {
    let store = subject.store();
    let mut first = Lane::take(store, 0).await;
    let second = Lane::take(store, 1).await;
    let elsewhere = LaneKey { stream: "OTHER".into(), ..lane(0) };
    store.lane_cursor(&elsewhere).await.unwrap();
    first.admit(store, [wake(1)]).await;

    let moved = LaneCursor { decided_sequence: 1, decided_instant: T0, known_sequence: 0 };
    assert_eq!(store.lane_cursor(&first.key).await.unwrap(), moved);
    assert_eq!(store.lane_cursor(&second.key).await.unwrap(), LaneCursor::default());
    assert_eq!(store.lane_cursor(&elsewhere).await.unwrap(), LaneCursor::default());
}

async fn a_stream_created_anew_starts_its_lanes_anew<S: Subject>(subject: S) {
    let store = subject.store();
    let mut old = Lane::take(store, 0).await;
    old.admit(store, [wake(1)]).await;
    for created_at in [T0 + MICRO, T0 - MICRO] {
        let anew = LaneKey { stream_created_at: created_at, ..lane(0) };
        // What a restored stream issues again is still looked up.
        let start = LaneCursor { known_sequence: 1, ..LaneCursor::default() };
        assert_eq!(store.lane_cursor(&anew).await.unwrap(), start);
        assert!(start.may_have_decided(1) && !start.may_have_decided(2));
    }
    let lost = store.record(&old.batch()).await;
    assert!(matches!(lost, Err(RecordError::LaneLost)), "{lost:?}");
}

async fn a_lost_fence_writes_nothing<S: Subject>(subject: S) {
    let store = subject.store();
    let mut owner = Lane::take(store, 0).await;
    let loser = Lane::take(store, 0).await;
    owner.admit(store, [wake(1)]).await;

    let mut batch = loser.batch();
    batch.runs.push(run(wake(2)));
    batch.refusals.push(refused(wake(3)));
    let lost = store.record(&batch).await;
    assert!(matches!(lost, Err(RecordError::LaneLost)), "{lost:?}");
    assert_eq!(subject.counts().await, [1, 0, 0, 0]);
}

async fn a_batch_that_writes_nothing_still_needs_the_lane<S: Subject>(subject: S) {
    let store = subject.store();
    let mut owner = Lane::take(store, 0).await;
    let loser = Lane::take(store, 0).await;
    owner.admit(store, [wake(1)]).await;

    for (lane, owned) in [(&owner, true), (&loser, false)] {
        let mut batch = lane.batch();
        batch.to = batch.from;
        batch.covers.push(id(1));
        match store.record(&batch).await {
            Ok(recorded) => assert!(owned && recorded.covers() == [id(1)]),
            Err(error) => assert!(!owned && matches!(error, RecordError::LaneLost), "{error}"),
        }
    }
}

async fn a_fence_that_moves_by_nothing_is_checked<S: Subject>(subject: S) {
    let store = subject.store();
    let mut owner = Lane::take(store, 0).await;
    let loser = Lane::take(store, 0).await;
    owner.admit(store, [wake(1)]).await;

    for (lane, number, owned) in [(&owner, 2, true), (&loser, 3, false)] {
        let mut batch = lane.batch();
        batch.to = batch.from;
        batch.runs.push(run(wake(number)));
        assert_eq!(store.record(&batch).await.is_ok(), owned);
    }
    assert_eq!(subject.counts().await, [2, 0, 0, 0]);
}

async fn attempts_alone_are_counted_until_they_end<S: Subject>(subject: S) {
    let store = subject.store();
    for before in 0..3 {
        assert_eq!(store.begin_isolated(&lane(0), id(1)).await.unwrap(), before);
    }
    assert_eq!(store.begin_isolated(&lane(0), id(2)).await.unwrap(), 0, "another wake");
    store.end_isolated(id(1)).await.unwrap();
    assert_eq!(store.begin_isolated(&lane(0), id(1)).await.unwrap(), 2);
    for _ in 0..4 {
        store.end_isolated(id(1)).await.unwrap();
    }
    assert_eq!(store.begin_isolated(&lane(0), id(1)).await.unwrap(), 0);
    assert_eq!(store.begin_isolated(&lane(0), id(2)).await.unwrap(), 1);
}

async fn a_ping_answers<S: Subject>(subject: S) {
    subject.store().ping().await.unwrap();
}
