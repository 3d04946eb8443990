//! What got there first, and that nothing is durable of what did not.

use std::sync::Arc;

use wakegate::store::memory::RunStatus;
use wakegate::store::{BatchRecord, MergedRun, RecordError, ShadowedWake, Store};
use wakegate::wake::Wake;

use super::given::{Lane, by_agent, id, key_of, keyed, merged, refused, run, wake};
use super::on_every_store;
use super::subject::{OnPostgres, OnSqlite, Row, Subject};
use crate::harness::outside::Outside;

on_every_store!(
    a_key_that_another_lane_took_loses_the_race,
    a_run_that_is_not_queued_any_more_takes_nothing_in,
    an_id_that_is_on_record_loses_the_race,
    of_many_records_on_one_lane_exactly_one_wins,
    of_two_lanes_that_take_one_key_exactly_one_wins,
    lanes_that_take_the_same_in_opposite_orders_do_not_deadlock,
);

/// A batch with something in every table.
fn full(lane: &Lane, first: u64) -> BatchRecord {
    let mut batch = lane.batch();
    let admitted = keyed(first, &format!("k{first}"));
    batch.keys.extend(key_of(&admitted, admitted.id));
    batch.runs.push(run(admitted));
    batch.merged_wakes.push(merged(wake(first + 1), id(first)));
    batch.refusals.push(refused(wake(first + 2)));
    batch.shadowed.push(shadowed(first + 3));
    batch
}

fn shadowed(number: u64) -> ShadowedWake {
    let (wake, record) = (Arc::new(wake(number)), "{}".to_owned());
    ShadowedWake { wake, reasons: vec!["platform_paused"], record }
}

async fn assert_lost<S: Subject>(subject: &S, lane: &Lane, batch: &BatchRecord, expected: &str) {
    let before = subject.counts().await;
    match subject.store().record(batch).await {
        Err(RecordError::RaceLost { what }) => assert_eq!(what, expected),
        other => panic!("lost a race for {expected}? {other:?}"),
    }
    assert_eq!(subject.counts().await, before, "nothing of it is durable");
    assert_eq!(subject.store().lane_cursor(&lane.key).await.unwrap(), lane.at);
}

async fn a_key_that_another_lane_took_loses_the_race<S: Subject>(subject: S) {
    let store = subject.store();
    Lane::take(store, 1).await.admit(store, [keyed(1, "k")]).await;
    let lane = Lane::take(store, 0).await;
    let mut batch = full(&lane, 10);
    batch.keys.extend(key_of(&keyed(2, "k"), id(10)));
    assert_lost(&subject, &lane, &batch, "a key").await;
}

async fn a_run_that_is_not_queued_any_more_takes_nothing_in<S: Subject>(subject: S) {
    let store = subject.store();
    let mut lane = Lane::take(store, 0).await;
    lane.admit(store, [wake(1), wake(2)]).await;
    for status in RunStatus::ALL.into_iter().filter(|status| *status != RunStatus::Queued) {
        subject.set_status(id(2), status).await;
        let mut batch = full(&lane, 10);
        for number in [2, 1] {
            let payload = by_agent("t2");
            batch.merges.push(MergedRun { run_id: id(number), payload, joined: 1 });
        }
        assert_lost(&subject, &lane, &batch, "a run that was queued").await;
    }
    let untouched = subject.runs().await;
    assert!(
        untouched.iter().all(|run| run.coalesced_count == 1 && run.payload == by_agent("t").text())
    );

    let mut batch = full(&lane, 10);
    batch.merges.push(MergedRun { run_id: id(99), payload: by_agent("t"), joined: 1 });
    assert_lost(&subject, &lane, &batch, "a run that was queued").await;
}

async fn an_id_that_is_on_record_loses_the_race<S: Subject>(subject: S) {
    let store = subject.store();
    subject.put_run(&Row::new(1, super::given::T0)).await;
    let mut lane = Lane::take(store, 0).await;
    let recorded = full(&lane, 10);
    lane.record(store, recorded).await;

    let mut batch = full(&lane, 20);
    batch.runs.push(run(wake(1)));
    assert_lost(&subject, &lane, &batch, "the id of a run").await;
    let mut batch = full(&lane, 20);
    batch.merged_wakes.push(merged(wake(11), id(20)));
    assert_lost(&subject, &lane, &batch, "the id of a merged wake").await;
    let mut batch = full(&lane, 20);
    batch.refusals.push(refused(wake(12)));
    assert_lost(&subject, &lane, &batch, "the id of a refused wake").await;
    let mut batch = full(&lane, 20);
    batch.shadowed.push(shadowed(13));
    assert_lost(&subject, &lane, &batch, "the id of a shadowed wake").await;
}

/// Somebody's trigger that leaves rows out would leave wakes without a trace.
async fn rows_that_are_left_out_fail_their_batch<S: Subject>(subject: &S, outside: &Outside) {
    let store = subject.store();
    let lane = Lane::take(store, 0).await;
    if let Outside::Postgres(_) = outside {
        let function = "CREATE FUNCTION leave_out() RETURNS trigger LANGUAGE plpgsql AS
                            'BEGIN RETURN NULL; END'";
        outside.execute(function).await;
    }
    for table in ["wake_keys", "merged_wakes", "refused_wakes", "shadowed_wakes", "runs"] {
        let (does, on) = match outside {
            Outside::Postgres(_) => {
                ("FOR EACH ROW EXECUTE FUNCTION leave_out()", format!("ON {table}"))
            }
            Outside::Sqlite(_) => ("BEGIN SELECT RAISE(IGNORE); END", String::new()),
        };
        outside.execute(&format!("CREATE TRIGGER leave BEFORE INSERT ON {table} {does}")).await;
        let lost = store.record(&full(&lane, 10)).await;
        assert!(matches!(lost, Err(RecordError::RaceLost { .. })), "{table}: {lost:?}");
        assert_eq!(subject.counts().await, [0; 4], "{table}");
        assert_eq!(store.lane_cursor(&lane.key).await.unwrap(), lane.at, "{table}");
        outside.execute(&format!("DROP TRIGGER leave {on}")).await;
    }
    store.record(&full(&lane, 10)).await.unwrap();
}

#[tokio::test]
async fn rows_that_are_left_out_fail_their_batch_on_postgres() {
    let subject = OnPostgres::open().await;
    rows_that_are_left_out_fail_their_batch(&subject, &subject.outside).await;
}

#[tokio::test]
async fn rows_that_are_left_out_fail_their_batch_on_sqlite() {
    let subject = OnSqlite::open().await;
    rows_that_are_left_out_fail_their_batch(&subject, &subject.outside).await;
}

/// Records at once, and says how each ended.
async fn at_once<S: Store>(store: &S, batches: Vec<BatchRecord>) -> Vec<Result<(), RecordError>> {
    let mut tasks = tokio::task::JoinSet::new();
    for batch in batches {
        let store = store.clone();
        tasks.spawn(async move { store.record(&batch).await.map(drop) });
    }
    tasks.join_all().await
}

async fn of_many_records_on_one_lane_exactly_one_wins<S: Subject>(subject: S) {
    let store = subject.store();
    let lane = Lane::take(store, 0).await;
    let batches = (1..=8).map(|number| full(&lane, number * 10)).collect();
    let ended = at_once(store, batches).await;
    assert_eq!(ended.iter().filter(|ended| ended.is_ok()).count(), 1, "{ended:?}");
    let lost = |ended: &&Result<_, _>| matches!(ended, Err(RecordError::LaneLost));
    assert_eq!(ended.iter().filter(lost).count(), 7, "{ended:?}");
    assert_eq!(subject.counts().await, [1, 1, 1, 1]);
}

async fn of_two_lanes_that_take_one_key_exactly_one_wins<S: Subject>(subject: S) {
    let store = subject.store();
    for round in 0..20 {
        let mut batches = Vec::new();
        for number in [0, 1] {
            let lane = Lane::take(store, number).await;
            let mut batch = full(&lane, 1_000 * (round + 1) + 10 * u64::from(number));
            let shared = keyed(0, &format!("shared {round}"));
            batch.keys.extend(key_of(&shared, batch.runs[0].wake.id));
            batches.push(batch);
        }
        let ended = at_once(store, batches).await;
        assert_eq!(ended.iter().filter(|ended| ended.is_ok()).count(), 1, "{ended:?}");
        assert!(
            ended.iter().any(|ended| matches!(ended, Err(RecordError::RaceLost { what: "a key" }))),
            "{ended:?}"
        );
    }
    assert_eq!(subject.counts().await, [20, 20, 20, 40]);
}

async fn lanes_that_take_the_same_in_opposite_orders_do_not_deadlock<S: Subject>(subject: S) {
    const RUNS: u64 = 40;
    let store = subject.store();
    Lane::take(store, 9).await.admit(store, (1..=RUNS).map(wake)).await;
    for round in 0..15 {
        let mut batches = Vec::new();
        for number in 0..4 {
            let lane = Lane::take(store, number).await;
            let mut batch = lane.batch();
            let joined = |run| MergedRun { run_id: id(run), payload: by_agent("t"), joined: 1 };
            batch.merges = (1..=RUNS).map(joined).collect();
            // Keys of their own, and one that all want in the last round.
            let keys = (1..=RUNS).map(|key| format!("{key} of {number} in {round}"));
            let wakes: Vec<Wake> = keys
                .chain((round == 14).then(|| "k".to_owned()))
                .map(|key| keyed(1, &key))
                .collect();
            batch.keys = wakes.iter().filter_map(|wake| key_of(wake, id(1))).collect();
            if number % 2 == 1 {
                batch.merges.reverse();
                batch.keys.reverse();
            }
            batches.push(batch);
        }
        let ended = at_once(store, batches).await;
        let won = ended.iter().filter(|ended| ended.is_ok()).count();
        assert_eq!(won, if round == 14 { 1 } else { 4 }, "{ended:?}");
        let by_key =
            |ended: &Result<_, _>| !matches!(ended, Err(RecordError::RaceLost { what: "a lock" }));
        assert!(ended.iter().all(by_key), "{ended:?}");
    }
    let runs = subject.runs().await;
    assert!(runs.iter().all(|run| run.coalesced_count == 1 + 14 * 4 + 1), "{runs:?}");
}
