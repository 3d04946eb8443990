//! Batches of several lanes in one transaction, as SQLite writes them.

use futures_util::future::{join, join_all};
use sqlx::{Sqlite, Transaction};
use tokio::task::yield_now;
use wakegate::store::{BatchRecord, RecordError, Store as _, StoreError};

use super::given::{Lane, key_of, keyed, run, wake};
use super::subject::{OnSqlite, Subject as _};
use crate::harness::outside::Outside;

/// One admitted wake with a key, in a lane of its own.
async fn batch_of(subject: &OnSqlite, lane: u32, key: &str) -> BatchRecord {
    let mut batch = Lane::take(subject.store(), lane).await.batch();
    let wake = keyed(u64::from(lane) + 1, key);
    batch.keys.extend(key_of(&wake, wake.id));
    batch.covers.push(wake.id);
    batch.runs.push(run(wake));
    batch
}

/// Somebody else writes, and keeps everybody waiting.
async fn occupy(subject: &OnSqlite) -> Transaction<'static, Sqlite> {
    let Outside::Sqlite(pool) = &subject.outside else { unreachable!("opened on SQLite") };
    pool.begin_with("BEGIN IMMEDIATE").await.unwrap()
}

type Answer = Result<(), RecordError>;

/// Answers to records that all came, in this order, to where they wait before the file was free.
async fn record_together(subject: &OnSqlite, batches: Vec<BatchRecord>) -> Vec<Answer> {
    let elsewhere = occupy(subject).await;
    let record = async |batch| subject.store().record(batch).await.map(drop);
    let (answers, free) = join(join_all(batches.iter().map(record)), elsewhere.rollback()).await;
    free.unwrap();
    answers
}

/// Transactions in the file's log: frames that say how large the file is with them.
fn commits(subject: &OnSqlite) -> usize {
    let path = subject.url.strip_prefix("sqlite://").unwrap();
    let log = std::fs::read(format!("{path}-wal")).unwrap();
    let word = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().unwrap());
    let (page_bytes, salts) = (word(8) as usize, &log[16..24]);
    let frames = (32..log.len()).step_by(24 + page_bytes);
    frames.filter(|at| log[at + 8..at + 16] == *salts && word(at + 4) != 0).count()
}

async fn recorded(subject: &OnSqlite) -> Vec<u128> {
    let runs = subject.runs().await;
    let mut ids: Vec<u128> =
        runs.iter().map(|run| uuid::Uuid::parse_str(&run.id).unwrap().as_u128()).collect();
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn of_batches_that_wait_for_the_file_up_to_four_are_written_by_one_transaction() {
    let subject = OnSqlite::open().await;
    let mut batches = Vec::new();
    for lane in 0..6 {
        batches.push(batch_of(&subject, lane, &format!("k{lane}")).await);
    }
    let before = commits(&subject);
    let answers = record_together(&subject, batches).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(recorded(&subject).await, [1, 2, 3, 4, 5, 6]);
    assert_eq!(commits(&subject) - before, 2);
}

#[tokio::test]
async fn a_batch_that_loses_a_race_within_the_transaction_leaves_the_others_in_it() {
    let subject = OnSqlite::open().await;
    let mut batches = Vec::new();
    for (lane, key) in [(0, "a"), (1, "a"), (2, "b"), (3, "c")] {
        batches.push(batch_of(&subject, lane, key).await);
    }
    let before = commits(&subject);
    let answers = record_together(&subject, batches).await;
    assert!(
        matches!(
            answers[..],
            [Ok(()), Err(RecordError::RaceLost { what: "a key" }), Ok(()), Ok(())]
        ),
        "{answers:?}"
    );
    // What it lost against can be read by now.
    assert_eq!(recorded(&subject).await, [1, 3, 4]);
    assert_eq!(commits(&subject) - before, 1);
    let lane = Lane::take(subject.store(), 1).await;
    assert_eq!(lane.at.decided_sequence, 0, "its fence stands where it stood");
}

#[tokio::test]
async fn a_transaction_that_one_batch_ended_is_tried_again_by_each_of_the_others_alone() {
    let subject = OnSqlite::open().await;
    subject
        .outside
        .execute(
            "CREATE TRIGGER ends BEFORE INSERT ON runs WHEN NEW.idempotency_key = 'poison'
             BEGIN SELECT raise(ROLLBACK, 'no transaction is left'); END",
        )
        .await;
    let mut batches = Vec::new();
    for (lane, key) in [(0, "a"), (1, "poison"), (2, "b")] {
        batches.push(batch_of(&subject, lane, key).await);
    }
    let before = commits(&subject);
    let answers = record_together(&subject, batches).await;
    assert!(
        matches!(
            answers[..],
            [Ok(()), Err(RecordError::Store(StoreError::Unavailable { .. })), Ok(())]
        ),
        "{answers:?}"
    );
    assert_eq!(recorded(&subject).await, [1, 3]);
    assert_eq!(commits(&subject) - before, 2);
}

/// The first writes, and can come no further than to wait for the second, which is not polled again.
#[tokio::test]
async fn records_that_are_given_up_at_any_point_leave_the_file_free() {
    let subject = OnSqlite::open().await;
    for (round, polls) in (0..).zip([0, 1, 5, 20, 100, 1_000, 10_000, 50_000]) {
        for first_goes_first in [true, false] {
            let mut batches = Vec::new();
            for lane in 0..2 {
                let mut batch = Lane::take(subject.store(), lane).await.batch();
                let number = 100 + 10 * round + 2 * u64::from(first_goes_first) + u64::from(lane);
                batch.runs.push(run(wake(number)));
                batches.push(batch);
            }
            let mut first = Box::pin(subject.store().record(&batches[0]));
            let mut second = Box::pin(subject.store().record(&batches[1]));
            assert!(futures_util::poll!(&mut first).is_pending());
            assert!(futures_util::poll!(&mut second).is_pending());
            for _ in 0..polls {
                yield_now().await;
                assert!(futures_util::poll!(&mut first).is_pending());
            }
            if first_goes_first {
                drop(first);
                drop(second);
            } else {
                drop(second);
                drop(first);
            }
            occupy(&subject).await.rollback().await.unwrap();
            assert_eq!(recorded(&subject).await, [0_u128; 0]);
        }
    }
    // And it is written to as before.
    let lane = Lane::take(subject.store(), 3).await;
    let mut batch = lane.batch();
    batch.runs.push(run(wake(7)));
    subject.store().record(&batch).await.unwrap();
    assert_eq!(recorded(&subject).await, [7]);
}
