//! Payloads, byte for byte, and the columns that say what they say.

use wakegate::admission::decision::DegradedReason;
use wakegate::store::MergedRun;
use wakegate::wake::{ActorId, ActorType, Payload, TaskId, Wake};

use super::given::{Lane, T0, id, keyed, payload, run, wake};
use super::on_every_store;
use super::subject::Subject;
use crate::harness::outside::RunRow;

on_every_store!(
    a_payload_of_any_text_is_kept_byte_for_byte_and_labels_its_run,
    a_merge_writes_payload_and_columns_together,
    a_batch_keeps_everything_it_knows_of_a_run,
);

fn texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "",
        "{}",
        " {\n} ",
        "no json",
        r#"{"task_id":"t","task_id":"u","actor_type":"agent","actor_id":"ann"}"#,
        r#"{"task_id":"a\u0000b","actor_type":"\u0000","actor_id":"\ud800"}"#,
        r#"{"task_id":7,"actor_type":["agent"],"actor_id":{}}"#,
        r#"{"task_id":"","actor_type":"","actor_id":""}"#,
        r#"{"task_id":"'\"é\u202e","actor_type":"user"}"#,
        r#"{"note":"\u0000 and \ud800 stay as they are","task_id":"t"}"#,
        "{\"task_id\":\"t\"}\u{feff}",
        "\u{10ffff}",
    ]
    .map(str::to_owned)
    .to_vec();
    texts.push(format!(r#"{{"task_id":"t","deep":{}{}}}"#, "[".repeat(5_000), "]".repeat(5_000)));
    texts.push(format!(r#"{{"task_id":"t","number":1{}}}"#, "0".repeat(200_000)));
    texts
}

fn assert_says_what_its_payload_says(run: &RunRow, expected: &Payload) {
    assert!(run.payload == expected.text(), "{:.60}", expected.text());
    let said = (run.task_id.as_deref(), run.actor_type.as_deref(), run.actor_id.as_deref());
    let expected = (
        expected.task().task().map(TaskId::as_str),
        expected.actor_type().map(ActorType::as_str),
        expected.actor_id().map(ActorId::as_str),
    );
    assert_eq!(said, expected, "{:.60}", run.payload);
}

async fn a_payload_of_any_text_is_kept_byte_for_byte_and_labels_its_run<S: Subject>(subject: S) {
    let store = subject.store();
    let payloads: Vec<Payload> = texts().iter().map(|text| payload(text)).collect();
    let wakes =
        (1..).zip(&payloads).map(|(number, text)| Wake { payload: text.clone(), ..wake(number) });
    Lane::take(store, 0).await.admit(store, wakes).await;
    let runs = subject.runs().await;
    assert_eq!(runs.len(), payloads.len());
    for (run, payload) in runs.iter().zip(&payloads) {
        assert_says_what_its_payload_says(run, payload);
    }
}

async fn a_merge_writes_payload_and_columns_together<S: Subject>(subject: S) {
    let store = subject.store();
    let mut lane = Lane::take(store, 0).await;
    lane.admit(store, [keyed(1, "k")]).await;
    for (number, text) in (2_u64..).zip(texts()) {
        let wake = Wake { payload: payload(&text), ..wake(number) };
        let mut batch = lane.batch();
        batch.merges.push(MergedRun { run_id: id(1), payload: wake.payload.clone(), joined: 2 });
        lane.record(store, batch).await;
        let [run] = subject.runs().await.try_into().unwrap();
        assert_says_what_its_payload_says(&run, &wake.payload);
        assert_eq!(run.coalesced_count, 1 + 2 * i64::try_from(number - 1).unwrap());
        let kept = (run.requested_at, run.idempotency_key.as_deref(), run.status.as_str());
        assert_eq!(kept, (T0.micros(), Some("k"), "queued"), "instant and key stay");
    }
}

async fn a_batch_keeps_everything_it_knows_of_a_run<S: Subject>(subject: S) {
    let store = subject.store();
    let mut lane = Lane::take(store, 0).await;
    let mut batch = lane.batch();
    let mut admitted = run(keyed(1, "k"));
    admitted.coalesced_count = 3;
    admitted.payload = payload(r#"{"task_id":"t","actor_type":"user"}"#);
    admitted.degraded = Some(DegradedReason::CountReadFailed);
    batch.runs.push(admitted.clone());
    lane.record(store, batch).await;
    let [run] = subject.runs().await.try_into().unwrap();
    assert_says_what_its_payload_says(&run, &admitted.payload);
    let expected = RunRow {
        id: id(1).to_string(),
        organization_id: "acme".to_owned(),
        agent_profile_id: "builder".to_owned(),
        status: "queued".to_owned(),
        idempotency_key: Some("k".to_owned()),
        coalesced_count: 3,
        degraded_reason: Some("count_read_failed".to_owned()),
        requested_at: T0.micros(),
        ..run.clone()
    };
    assert_eq!(run, expected);
}
