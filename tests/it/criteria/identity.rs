//! Gate 0: a redelivery of each outcome gives the same answer, whatever has changed since.

use serde_json::{Value, json};
use wakegate::intake::Delivery;
use wakegate::store::Store;
use wakegate::store::memory::{MemoryStore, RecordFailure};

use super::on_both_databases;
use super::scope::exhaust;
use crate::harness::case::Case;
use crate::harness::world::{MINUTE, Published, SECOND, T0, World, brief, mutation, requested};

on_both_databases!(
    gate_0_queued_stays_queued_when_the_agent_was_stopped_and_the_run_claimed,
    gate_0_coalesced_stays_coalesced_when_the_run_was_claimed,
    gate_0_deduplicated_stays_deduplicated_when_the_organization_was_paused,
    gate_0_each_refusal_stays_a_refusal_when_its_cause_is_gone,
    gate_0_an_exhausted_wake_stays_refused_when_the_slot_is_free,
    gate_0_no_wake_and_rejected_come_out_the_same,
    gate_0_what_is_decided_is_not_poison_however_often_the_process_ends,
    gate_0_a_degraded_admission_is_published_again_as_it_was,
    gate_0_a_wakes_own_rows_are_no_facts_for_it,
    gate_0_a_redelivery_among_new_wakes_changes_nothing_for_them,
);

/// Works one event, changes the world, works the same delivery again, and expects the same record
/// and no change in rows, metrics or audit events.
async fn redelivered<S: Store>(case: &mut Case<S>, delivery: Delivery, changes: &str) -> Value {
    let first = case.world.work(std::slice::from_ref(&delivery)).await.remove(0);
    case.outside.execute(changes).await;
    let rows = case.outside.runs().await;
    let audited = case.world.audited();
    let metrics = counters(&case.world.bench.metrics.render());
    let again = Delivery { deliveries: 2, ..delivery };
    let second = case.world.work(&[again]).await.remove(0);
    assert_eq!(second, first, "the answer it got before");
    assert_eq!(case.outside.runs().await, rows, "no row is added or touched");
    assert_eq!(case.world.audited(), audited, "nothing new for operators");
    assert_eq!(counters(&case.world.bench.metrics.render()), metrics, "nothing is counted twice");
    first
}

/// The counters of outcomes, without the timings.
fn counters(rendered: &str) -> Vec<String> {
    let families = [
        "wakegate_wakes_total",
        "wakegate_refusals_total",
        "wakegate_rejected_total",
        "wakegate_assignment_allowance_total",
        "wakegate_dedup_total",
        "wakegate_keyless_total",
        "wakegate_contract_violations_total",
    ];
    rendered
        .lines()
        .filter(|line| families.iter().any(|family| line.starts_with(family)))
        .map(str::to_owned)
        .collect()
}

fn stored<S: Store>(case: &mut Case<S>, event: Published) -> Delivery {
    case.world.stored(&[event]).remove(0)
}

const STOP_AND_PAUSE: &str = "\
    INSERT INTO agents (organization_id, agent_profile_id, status) \
        VALUES ('acme', 'builder', 'stopped');\
    INSERT INTO pauses (id, scope, organization_id, mode, actor, reason) \
        VALUES ('p', 'organization', 'acme', 'drain', 'ann', 'test');\
    UPDATE runs SET status = 'claimed'";

async fn gate_0_queued_stays_queued_when_the_agent_was_stopped_and_the_run_claimed<S: Store>(
    mut case: Case<S>,
) {
    let delivery = stored(&mut case, mutation(T0, "t1", "boss", "builder", json!(1)));
    let record = redelivered(&mut case, delivery, STOP_AND_PAUSE).await;
    assert_eq!(brief(&record), "queued");
    assert_eq!(record["run_id"], record["wake_id"], "a run's id is that of the wake");
}

async fn gate_0_coalesced_stays_coalesced_when_the_run_was_claimed<S: Store>(mut case: Case<S>) {
    case.world.send(mutation(T0, "t1", "boss", "builder", json!(1))).await;
    let delivery = stored(&mut case, mutation(T0 + SECOND, "t1", "boss", "builder", json!(2)));
    let record = redelivered(&mut case, delivery, STOP_AND_PAUSE).await;
    assert_eq!(brief(&record), "coalesced");
}

async fn gate_0_deduplicated_stays_deduplicated_when_the_organization_was_paused<S: Store>(
    mut case: Case<S>,
) {
    case.world.send(mutation(T0, "t1", "boss", "builder", json!(1))).await;
    let delivery = stored(&mut case, mutation(T0 + MINUTE, "t1", "boss", "builder", json!(1)));
    let record = redelivered(&mut case, delivery, STOP_AND_PAUSE).await;
    assert_eq!(brief(&record), "deduplicated:windowed");
}

async fn gate_0_each_refusal_stays_a_refusal_when_its_cause_is_gone<S: Store>(mut case: Case<S>) {
    let mut at = T0;
    for (cause, remedy, expected) in [
        (
            "INSERT INTO pauses (id, scope, mode, actor, reason) \
             VALUES ('p1', 'platform', 'drain', 'ann', 'test')",
            "UPDATE pauses SET released_at = created_at",
            "refused:platform_paused",
        ),
        (
            "INSERT INTO pauses (id, scope, organization_id, mode, actor, reason) \
             VALUES ('p2', 'organization', 'acme', 'drain', 'ann', 'test')",
            "UPDATE pauses SET released_at = created_at",
            "refused:organization_paused",
        ),
        (
            "INSERT INTO agents (organization_id, agent_profile_id, status) \
             VALUES ('acme', 'builder', 'paused')",
            "DELETE FROM agents",
            "refused:agent_paused",
        ),
        (
            "INSERT INTO agents (organization_id, agent_profile_id, status) \
             VALUES ('acme', 'builder', 'stopped')",
            "UPDATE agents SET status = 'idle'",
            "refused:agent_stopped",
        ),
        (
            "UPDATE agents SET status = 'pending_approval'",
            "UPDATE agents SET status = 'working'",
            "refused:agent_pending_approval",
        ),
    ] {
        at += 10 * SECOND;
        case.outside.execute(cause).await;
        let delivery = stored(&mut case, mutation(at, "t1", "boss", "builder", json!(at)));
        let record = redelivered(&mut case, delivery, remedy).await;
        assert_eq!(brief(&record), expected);
    }
    assert_eq!(case.outside.run_count().await, 0);
}

async fn gate_0_an_exhausted_wake_stays_refused_when_the_slot_is_free<S: Store>(mut case: Case<S>) {
    exhaust(&mut case.world).await;
    let delivery = stored(&mut case, mutation(T0 + 2 * MINUTE, "t1", "boss", "builder", json!(7)));
    let record = redelivered(&mut case, delivery, "DELETE FROM runs").await;
    assert_eq!(brief(&record), "refused:allowance_exhausted");
    assert_eq!(case.outside.run_count().await, 0);
}

async fn gate_0_no_wake_and_rejected_come_out_the_same<S: Store>(mut case: Case<S>) {
    let unassigned = stored(&mut case, mutation(T0, "t1", "boss", "", json!(1)));
    let record = redelivered(&mut case, unassigned, STOP_AND_PAUSE).await;
    assert_eq!(brief(&record), "no_wake:unassigned");
    let broken = Published {
        body: bytes::Bytes::from_static(b"{ not json"),
        ..mutation(T0, "t1", "boss", "builder", json!(1))
    };
    let broken = stored(&mut case, broken);
    let record = redelivered(&mut case, broken, "UPDATE runs SET status = 'queued'").await;
    assert_eq!(brief(&record), "rejected:not_json");
}

async fn gate_0_a_degraded_admission_is_published_again_as_it_was<S: Store>(mut case: Case<S>) {
    let payload = json!({ "actor_type": "agent", "actor_id": "boss" });
    let delivery = stored(&mut case, requested(T0, "builder", payload, None));
    let record = redelivered(&mut case, delivery, STOP_AND_PAUSE).await;
    assert_eq!(brief(&record), "queued/task_unattributed");
    let audited = case.world.audited();
    assert_eq!(audited.len(), 1, "one event, for the repeat has the same message id");
    assert_eq!(audited[0].subject(), "wake-audit.degraded.task_unattributed.acme");
    assert_eq!(
        audited[0].message_id(),
        format!("{}.degraded.task_unattributed", record["wake_id"].as_str().unwrap())
    );
}

/// The fifth of five: were its own row counted at its redelivery, it would be refused; were it a
/// merge target, it would join itself; were its key looked up, it would be its own duplicate.
async fn gate_0_a_wakes_own_rows_are_no_facts_for_it<S: Store>(mut case: Case<S>) {
    let deliveries: Vec<Delivery> = (1..=5)
        .map(|i| {
            stored(&mut case, mutation(T0 + i * 10 * SECOND, "t1", "boss", "builder", json!(i)))
        })
        .collect();
    let first = case.world.work(&deliveries).await;
    for _ in 0..3 {
        let again = case.world.work(&deliveries).await;
        assert_eq!(again, first);
    }
    assert_eq!(case.outside.run_count().await, 5);
    assert!(case.outside.runs().await.iter().all(|run| run.coalesced_count == 1));
}

async fn gate_0_a_redelivery_among_new_wakes_changes_nothing_for_them<S: Store>(mut case: Case<S>) {
    let old: Vec<Delivery> = (1..=4)
        .map(|i| {
            stored(&mut case, mutation(T0 + i * 10 * SECOND, "t1", "boss", "builder", json!(i)))
        })
        .collect();
    case.world.work(&old).await;
    let mut batch = old.clone();
    batch.extend(case.world.stored(&[
        mutation(T0 + 50 * SECOND, "t1", "boss", "builder", json!(5)),
        mutation(T0 + 60 * SECOND, "t1", "boss", "builder", json!(6)),
    ]));
    let outcomes: Vec<String> = case.world.work(&batch).await.iter().map(brief).collect();
    assert_eq!(outcomes[..5], ["queued"; 5]);
    assert_eq!(outcomes[5], "refused:allowance_exhausted", "the four count once");
}

/// The commit happened and its answer was lost: the wakes are recognised, not run twice, and the
/// lane goes on where it stands.
#[tokio::test]
async fn gate_0_a_commit_whose_answer_was_lost_is_recognised() {
    let store = MemoryStore::new();
    let mut world = World::new(store.clone()).await;
    let wakes: Vec<Published> = (1..=6)
        .map(|i| mutation(T0 + i * 10 * SECOND, "t1", "boss", "builder", json!(i)))
        .collect();
    store.fail_records(&[RecordFailure::ReplyLost, RecordFailure::BeforeCommit]);
    let outcomes: Vec<String> = world.batch(&wakes).await.iter().map(brief).collect();
    assert_eq!(outcomes[..5], ["queued"; 5]);
    assert_eq!(outcomes[5], "refused:allowance_exhausted");
    assert_eq!(store.runs().len(), 5);
    let seventh = mutation(T0 + MINUTE, "t2", "boss", "builder", json!(1));
    assert_eq!(brief(&world.send(seventh).await), "queued");
}

/// The process ends three times between the commit and the acknowledgement: the wake repeats its
/// outcome all the same, and one that was never decided does not.
async fn gate_0_what_is_decided_is_not_poison_however_often_the_process_ends<S: Store>(
    mut case: Case<S>,
) {
    let events = [mutation(T0, "t1", "boss", "builder", json!(1)), no_wake(), undecodable()];
    let deliveries = case.world.stored(&events);
    let undecided = stored(&mut case, mutation(T0, "t2", "boss", "builder", json!(1)));
    let first = case.world.work(&deliveries).await;
    let bench = &case.world.bench;
    for delivery in deliveries.iter().chain([&undecided]) {
        for _ in 0..3 {
            bench.store.begin_isolated(&bench.lane, delivery.wake_id()).await.unwrap();
        }
    }
    for (delivery, first) in deliveries.into_iter().zip(first) {
        let again = case.world.work(&[Delivery { deliveries: 6, ..delivery }]).await.remove(0);
        assert_eq!(brief(&again), brief(&first));
    }
    let undecided = Delivery { deliveries: 6, ..undecided };
    assert_eq!(brief(&case.world.work(&[undecided]).await[0]), "rejected:poison");
    assert_eq!(case.outside.runs().await.len(), 1);
}

fn no_wake() -> Published {
    mutation(T0, "t1", "boss", "", json!(1))
}

fn undecodable() -> Published {
    Published::of("task_mutation", "acme", "t1", &json!("no object"), T0)
}
