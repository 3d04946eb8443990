//! What the database refuses, and reads that fail alone.

use wakegate::admission::GateName;
use wakegate::store::{
    BatchRecord, CountWindow, LaneCursor, MergedRun, RecordError, RoomQuery, Store as _, StoreError,
};

use super::given::{
    Lane, READS, T0, agent, by_agent, id, key, key_of, keyed, organization, run, task, wake,
};
use super::on_every_store;
use super::subject::{Row, Subject};

on_every_store!(
    one_row_that_cannot_be_stored_leaves_nothing_of_its_batch,
    a_number_that_no_column_holds_is_the_datas_fault,
    each_gates_read_fails_alone,
);

async fn assert_data<S: Subject>(subject: &S, lane: &Lane, batch: &BatchRecord) {
    let before = subject.counts().await;
    match subject.store().record(batch).await {
        Err(RecordError::Store(StoreError::Data { error })) => {
            assert!(!error.contains('\n') && !error.is_empty(), "{error}");
        }
        other => panic!("the data's fault? {other:?}"),
    }
    assert_eq!(subject.counts().await, before);
    assert_eq!(subject.store().lane_cursor(&lane.key).await.unwrap(), lane.at);
}

async fn one_row_that_cannot_be_stored_leaves_nothing_of_its_batch<S: Subject>(subject: S) {
    let store = subject.store();
    subject.put_run(&Row { coalesced_count: i32::MAX.unsigned_abs(), ..Row::new(1, T0) }).await;
    let mut lane = Lane::take(store, 0).await;
    let mut batch = lane.batch();
    for wake in (10..400).map(|number| keyed(number, &format!("k{number}"))) {
        batch.keys.extend(key_of(&wake, wake.id));
        batch.runs.push(run(wake));
    }
    batch.merges.push(MergedRun { run_id: id(1), payload: by_agent("t"), joined: 1 });
    assert_data(&subject, &lane, &batch).await;
    // Without that row the rest is stored, over the same connection.
    batch.merges.clear();
    lane.record(store, batch).await;
    assert_eq!(subject.counts().await, [391, 0, 0, 390]);
}

async fn a_number_that_no_column_holds_is_the_datas_fault<S: Subject>(subject: S) {
    let lane = Lane::take(subject.store(), 0).await;
    let mut batch = lane.batch();
    batch.to = LaneCursor { decided_sequence: u64::MAX, ..batch.to };
    assert_data(&subject, &lane, &batch).await;
    let mut batch = lane.batch();
    batch.runs.push(run(wake(1)));
    batch.runs[0].coalesced_count = u32::MAX;
    assert_data(&subject, &lane, &batch).await;
    let mut batch = lane.batch();
    batch.runs.push(run(wake(1)));
    batch.runs[0].coalesced_count = 0;
    assert_data(&subject, &lane, &batch).await;
}

/// Which reads answer.
async fn answering<S: Subject>(subject: &S) -> Vec<GateName> {
    let store = subject.store();
    let acme = organization("acme");
    let window = CountWindow { organization_id: acme.clone(), task_id: task("t"), at: T0 };
    let answers = [
        (GateName::Identity, store.read_identity(&[id(1)]).await.map(drop)),
        (GateName::AgentStatus, store.read_agents(&[(acme.clone(), agent("a"))]).await.map(drop)),
        (GateName::Pause, store.read_pauses(std::slice::from_ref(&acme)).await.map(drop)),
        (GateName::Duplicate, store.read_keys(&[(acme, key("k"))]).await.map(drop)),
        (GateName::Coalesce, store.read_queued(&[&wake(1)]).await.map(drop)),
        (GateName::Allowance, store.read_counted(&[window], 100).await.map(drop)),
        (GateName::Capacity, store.read_room(&RoomQuery::of([&wake(1)])).await.map(drop)),
    ];
    let mut answering = Vec::new();
    for (gate, answer) in answers {
        match answer {
            Ok(()) => answering.push(gate),
            Err(StoreError::Unavailable { error }) => assert!(!error.is_empty()),
            Err(error @ StoreError::Data { .. }) => panic!("{error}"),
        }
    }
    answering
}

async fn each_gates_read_fails_alone<S: Subject>(subject: S) {
    assert_eq!(answering(&subject).await, READS);
    for gate in READS {
        subject.break_read(gate).await;
        let others: Vec<_> = READS.into_iter().filter(|other| *other != gate).collect();
        assert_eq!(answering(&subject).await, others);
        subject.mend_read(gate).await;
        assert_eq!(answering(&subject).await, READS, "{gate:?} works again");
    }
}
