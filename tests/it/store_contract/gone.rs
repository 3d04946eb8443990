//! A database that is away, locked, slow or restarted.

use std::time::{Duration, Instant};

use wakegate::admission::decision::PriorOutcome;
use wakegate::store::Database as _;
use wakegate::store::memory::{MemoryStore, RecordFailure};
use wakegate::store::postgres::PostgresStore;
use wakegate::store::sqlite::SqliteStore;
use wakegate::store::{CountWindow, RecordError, Store, StoreError, StoreOptions};

use super::given::{Lane, T0, id, organization, run, task, wake};
use super::subject::{OnPostgres, OnSqlite, Subject as _};
use crate::harness::outside::Outside;
use crate::harness::{PATIENCE, postgres};

/// Short, for tests that wait for it to pass.
const HASTY: StoreOptions = StoreOptions {
    connections_max: 4,
    read_deadline: Duration::from_millis(300),
    record_deadline: Duration::from_millis(300),
};

async fn count<S: Store>(store: &S) -> Result<usize, StoreError> {
    let window = CountWindow { organization_id: organization("acme"), task_id: task("t"), at: T0 };
    Ok(store.read_counted(&[window], 100).await?.by_task.len())
}

async fn admit<S: Store>(store: &S, lane: &Lane, number: u64) -> Result<(), RecordError> {
    let mut batch = lane.batch();
    batch.runs.push(run(wake(number)));
    store.record(&batch).await.map(drop)
}

fn assert_unavailable<T: std::fmt::Debug>(answer: Result<T, impl Into<RecordError>>) {
    match answer.map_err(Into::into) {
        Err(RecordError::Store(StoreError::Unavailable { error })) => assert!(!error.is_empty()),
        other => panic!("unavailable? {other:?}"),
    }
}

/// Repeats until it works again: a deadline of `HASTY` may pass once more on a busy machine.
async fn recovers<T, E: std::fmt::Display>(mut work: impl AsyncFnMut() -> Result<T, E>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        match work().await {
            Ok(answer) => return answer,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_on_postgres_fails_reads_and_records_within_their_deadlines() {
    let subject = OnPostgres::open().await;
    let store = PostgresStore::connect(&subject.database.url(), &HASTY).unwrap();
    let lane = recovers(async || {
        Ok::<_, StoreError>(Lane {
            key: super::given::lane(0),
            at: store.lane_cursor(&super::given::lane(0)).await?,
        })
    })
    .await;
    recovers(async || count(&store).await).await;

    let pool = subject.database.pool();
    let mut locked = pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE").execute(&mut *locked).await.unwrap();
    assert_unavailable(count(&store).await);
    assert_unavailable(admit(&store, &lane, 1).await);
    locked.rollback().await.unwrap();

    recovers(async || count(&store).await).await;
    recovers(async || admit(&store, &lane, 1).await).await;
    assert_eq!(subject.counts().await, [1, 0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_connections_that_were_cut_are_replaced_unseen() {
    let subject = OnPostgres::open().await;
    let store = subject.store();
    let mut lane = Lane::take(store, 0).await;
    for number in 1..=3 {
        lane.admit(store, [wake(number)]).await;
        assert_eq!(count(store).await.unwrap(), 1);
        subject
            .database
            .execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
                 WHERE application_name = 'wakegate' AND datname = current_database()",
            )
            .await;
    }
    assert_eq!(store.lane_cursor(&lane.key).await.unwrap(), lane.at);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_nobody_waits_for_ends_at_the_server() {
    let subject = OnPostgres::open().await;
    let store = subject.store();
    count(store).await.unwrap();
    let pool = subject.database.pool();
    let mut locked = pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE").execute(&mut *locked).await.unwrap();
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'wakegate'
                   AND datname = current_database() AND wait_event_type = 'Lock'";
    let mut looks = tokio::time::interval(Duration::from_millis(5));
    {
        let mut read = Box::pin(count(store));
        let end = Instant::now() + PATIENCE;
        while subject.outside.number(waiting).await == 0 {
            assert!(Instant::now() < end, "the read never waited for the lock");
            tokio::select! {
                answer = &mut read => panic!("read through a lock: {answer:?}"),
                _ = looks.tick() => {}
            }
        }
    }
    let end = Instant::now() + PATIENCE;
    while subject.outside.number(waiting).await != 0 {
        assert!(Instant::now() < end, "the query went on without its client");
        looks.tick().await;
    }
    locked.rollback().await.unwrap();
    count(store).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_server_is_unavailable_and_names_no_secret() {
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let url = format!("postgres://someone:hunter2@127.0.0.1:{port}/nowhere");
    let store = PostgresStore::connect(&url, &HASTY).unwrap();
    let error = store.ping().await.unwrap_err().to_string();
    assert!(error.contains("unavailable") && !error.contains("hunter2"), "{error}");
    assert_unavailable(count(&store).await);
    let error = store.migrate().await.unwrap_err().to_string();
    assert!(!error.contains("hunter2"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_cut_leaves_nothing_or_all_and_identity_tells_which() {
    let subject = OnPostgres::open().await;
    let store = subject.store();
    let lane = Lane::take(store, 0).await;
    // The server ends this very session while it commits.
    subject
        .database
        .execute(
            "CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep_for(interval '1 min');
             RETURN NULL; END $$;
             CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON runs DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION cut()",
        )
        .await;
    assert_unavailable(admit(store, &lane, 1).await);
    assert!(store.read_identity(&[id(1)]).await.unwrap().is_empty());
    assert_eq!(store.lane_cursor(&lane.key).await.unwrap(), lane.at);
    subject.database.execute("DROP TRIGGER cut ON runs").await;
    admit(store, &lane, 1).await.unwrap();
}

#[tokio::test]
async fn a_lost_reply_leaves_what_identity_recognises() {
    let store = MemoryStore::new();
    let lane = Lane::take(&store, 0).await;
    store.fail_records(&[RecordFailure::BeforeCommit, RecordFailure::ReplyLost]);
    assert_unavailable(admit(&store, &lane, 1).await);
    assert!(store.read_identity(&[id(1)]).await.unwrap().is_empty());
    assert_unavailable(admit(&store, &lane, 1).await);
    let found = store.read_identity(&[id(1)]).await.unwrap();
    assert!(matches!(found[&id(1)], PriorOutcome::Queued { .. }));
    let lost = admit(&store, &lane, 1).await;
    assert!(matches!(lost, Err(RecordError::LaneLost)), "{lost:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_elsewhere_fails_a_sqlite_record_within_its_deadline() {
    let subject = OnSqlite::open().await;
    let store = SqliteStore::connect(&subject.url, &HASTY).unwrap();
    let lane = Lane::take(subject.store(), 0).await;
    let Outside::Sqlite(pool) = &subject.outside else { unreachable!("opened on SQLite") };
    let writing = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    assert_unavailable(admit(&store, &lane, 1).await);
    recovers(async || count(&store).await).await;
    writing.rollback().await.unwrap();
    recovers(async || admit(&store, &lane, 1).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sqlite_read_without_end_is_ended_by_its_deadline() {
    let subject = OnSqlite::open().await;
    let store =
        SqliteStore::connect(&subject.url, &StoreOptions { connections_max: 2, ..HASTY }).unwrap();
    subject
        .outside
        .execute(
            "DROP VIEW counted_runs;
             CREATE VIEW counted_runs AS
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
             SELECT 'acme' AS organization_id, 't' AS task_id, -i AS requested_at, '' AS id FROM n",
        )
        .await;
    for _ in 0..3 {
        assert_unavailable(count(&store).await);
    }
    // The one connection for reads serves again.
    recovers(async || store.read_identity(&[id(1)]).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_unavailable() {
    let database = postgres::database().await;
    let store = PostgresStore::connect(&database.url(), &super::subject::OPTIONS).unwrap();
    let lane = Lane::take(&store, 0).await;
    database
        .execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$;
             CREATE TRIGGER full_disk BEFORE INSERT ON runs EXECUTE FUNCTION full_disk()",
        )
        .await;
    assert_unavailable(admit(&store, &lane, 1).await);
    database.execute("DROP TRIGGER full_disk ON runs").await;
    admit(&store, &lane, 1).await.unwrap();
}
