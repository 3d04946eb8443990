//! Which wakes the allowance binds (AC-…-001.1, .7, .9, .12, .13).

use serde_json::{Value, json};
use wakegate::store::Store;
use wakegate::wake::producer::ProducerClass;

use super::on_both_databases;
use crate::harness::case::Case;
use crate::harness::world::{MINUTE, Published, SECOND, T0, World, brief, mutation, requested};

on_both_databases!(
    ac_001_01_tp_02_a_person_is_never_limited,
    ac_001_01_tp_03_a_wake_without_an_agent_actor_is_out_of_scope,
    ac_001_01_another_reason_is_out_of_scope,
    ac_001_07_a_refusal_acknowledges_its_event_and_disturbs_no_other,
    ac_001_09_tp_11_an_unassignment_neither_refuses_nor_consumes,
    ac_001_12_tp_09_a_lifecycle_wake_is_unaffected_by_an_exhausted_allowance,
    ac_001_12_tp_17_producers_are_enumerated_and_an_agent_actor_is_gated_whoever_sets_it,
    ac_001_13_tp_08_a_mutation_by_an_agent_carries_the_actor_type_on_the_wake,
);

/// Uses up the allowance of `t1`, ten seconds apart, up to 50 s after [`T0`].
pub async fn exhaust<S: Store>(world: &mut World<S>) {
    let wakes: Vec<Published> = (1..=5)
        .map(|i| mutation(T0 + i * 10 * SECOND, "t1", "boss", "builder", json!(i)))
        .collect();
    assert_eq!(world.outcomes(&wakes).await, ["queued"; 5]);
    let sixth = mutation(T0 + MINUTE, "t1", "boss", "builder", json!(6));
    assert_eq!(world.outcomes(&[sixth]).await, ["refused:allowance_exhausted"]);
}

async fn ac_001_01_tp_02_a_person_is_never_limited<S: Store>(mut case: Case<S>) {
    exhaust(&mut case.world).await;
    let before = case.world.allowance_counters();
    // The internal caller supplies an empty acting agent, or none: it is classified as user.
    for (i, actor) in [json!(""), Value::Null].into_iter().enumerate() {
        let i = i64::try_from(i).unwrap();
        let event = mutation(T0 + 2 * MINUTE + i * 10 * SECOND, "t1", "", "builder", json!(20 + i))
            .with(json!({ "acting_agent_id": actor }));
        let record = case.world.send(event).await;
        assert_eq!(brief(&record), "queued");
        let run = case.outside.run_of(&record).await;
        assert_eq!(run.actor_type.as_deref(), Some("user"));
        assert_eq!(run.actor_id, None);
    }
    assert_eq!(case.world.allowance_counters(), before, "no counter moves for a person");
    // Nor did they consume: 50 s + W later exactly five agent wakes fit again.
    let later = T0 + 12 * MINUTE;
    let wakes: Vec<Published> = (0..6)
        .map(|i| mutation(later + i * 10 * SECOND, "t1", "boss", "builder", json!(30 + i)))
        .collect();
    let outcomes = case.world.outcomes(&wakes).await;
    assert_eq!(outcomes[..5], ["queued"; 5]);
    assert_eq!(outcomes[5], "refused:allowance_exhausted");
}

async fn ac_001_01_tp_03_a_wake_without_an_agent_actor_is_out_of_scope<S: Store>(
    mut case: Case<S>,
) {
    exhaust(&mut case.world).await;
    let before = case.world.allowance_counters();
    let shapes = [
        json!({ "task_id": "t1" }),
        json!({ "task_id": "t1", "actor_type": null }),
        json!({ "task_id": "t1", "actor_type": "" }),
        json!({ "task_id": "t1", "actor_type": "user" }),
        json!({ "task_id": "t1", "actor_type": "system" }),
        json!({ "task_id": "t1", "actor_type": "Agent" }),
        json!({ "task_id": "t1", "actor_type": "agent " }),
        json!({ "task_id": "t1", "actor_type": 1 }),
        json!({ "task_id": "t1", "actor_type": ["agent"] }),
        json!({ "task_id": "t1", "actor_type": { "actor_type": "agent" } }),
    ];
    for (i, payload) in shapes.into_iter().enumerate() {
        let at = T0 + 2 * MINUTE + i64::try_from(i).unwrap() * 10 * SECOND;
        let record = case.world.send(requested(at, "builder", payload.clone(), None)).await;
        assert_eq!(brief(&record), "queued", "{payload}");
    }
    assert_eq!(case.world.allowance_counters(), before);
}

async fn ac_001_01_another_reason_is_out_of_scope<S: Store>(mut case: Case<S>) {
    exhaust(&mut case.world).await;
    let payload = json!({ "task_id": "t1", "actor_type": "agent", "actor_id": "boss" });
    let event = requested(T0 + 2 * MINUTE, "builder", payload, None)
        .with(json!({ "reason": "task_comment" }));
    assert_eq!(case.world.outcomes(&[event]).await, ["queued"]);
}

/// wakegate stands behind the mutation, which has been committed and published by the time its
/// event arrives: nothing of it can be rolled back from here. What a refusal owes it is to be
/// final (acknowledged, not redelivered) and to leave the wakes around it alone.
async fn ac_001_07_a_refusal_acknowledges_its_event_and_disturbs_no_other<S: Store>(
    mut case: Case<S>,
) {
    exhaust(&mut case.world).await;
    let at = T0 + 2 * MINUTE;
    let batch = [
        mutation(at, "t1", "boss", "builder", json!(7)),
        mutation(at, "t2", "boss", "builder", json!(1)),
        mutation(at, "t1", "", "builder", json!(8)),
    ];
    let records = case.world.batch(&batch).await;
    let outcomes: Vec<String> = records.iter().map(brief).collect();
    assert_eq!(outcomes, ["refused:allowance_exhausted", "queued", "queued"]);
    assert_eq!(case.world.acknowledged().len(), 9, "all nine events are done with");
}

async fn ac_001_09_tp_11_an_unassignment_neither_refuses_nor_consumes<S: Store>(mut case: Case<S>) {
    for i in 0..7 {
        let event = mutation(T0 + i * SECOND, "t1", "boss", "", json!(i));
        assert_eq!(brief(&case.world.send(event).await), "no_wake:unassigned");
    }
    let unchanged = mutation(T0 + 8 * SECOND, "t1", "boss", "x", json!(8))
        .with(json!({ "new_assignee_agent_profile_id": null }));
    assert_eq!(brief(&case.world.send(unchanged).await), "no_wake:assignee_unchanged");
    assert_eq!(case.outside.run_count().await, 0);
    exhaust(&mut case.world).await;
    let event = mutation(T0 + 2 * MINUTE, "t1", "boss", "", json!(9));
    assert_eq!(brief(&case.world.send(event).await), "no_wake:unassigned");
}

async fn ac_001_12_tp_09_a_lifecycle_wake_is_unaffected_by_an_exhausted_allowance<S: Store>(
    mut case: Case<S>,
) {
    exhaust(&mut case.world).await;
    let event = requested(T0 + 2 * MINUTE, "builder", json!({ "task_id": "t1" }), None);
    assert_eq!(case.world.outcomes(&[event]).await, ["queued"]);
}

async fn ac_001_12_tp_17_producers_are_enumerated_and_an_agent_actor_is_gated_whoever_sets_it<
    S: Store,
>(
    mut case: Case<S>,
) {
    let known: Vec<&str> = ProducerClass::ALL.into_iter().map(ProducerClass::as_str).collect();
    assert_eq!(
        known,
        [
            "task_mutation",
            "task_lifecycle",
            "onboarding",
            "recovery_sweep",
            "workflow_auto_start",
            "other"
        ],
        "a new producer must decide here which actor type it emits"
    );
    let may: Vec<&str> = ProducerClass::ALL
        .into_iter()
        .filter(|class| class.may_carry_agent_actor())
        .map(ProducerClass::as_str)
        .collect();
    assert_eq!(may, ["task_mutation"], "the only producer that may carry an agent actor");

    exhaust(&mut case.world).await;
    let violations = "wakegate_contract_violations_total{kind=\"foreign_agent_actor\"}";
    assert!(case.world.metric(violations) == 0);
    for (i, producer) in known.iter().skip(1).enumerate() {
        let at = T0 + 2 * MINUTE + i64::try_from(i).unwrap() * 10 * SECOND;
        let payload = json!({ "task_id": "t1", "actor_type": "agent", "actor_id": "boss" });
        let event = requested(at, "builder", payload, None).by_producer(producer);
        let record = case.world.send(event).await;
        assert_eq!(brief(&record), "refused:allowance_exhausted", "{producer}");
    }
    assert!(case.world.metric(violations) == 5, "each is reported");
}

/// The wake is classified by what it carries itself; the mutation is not read again.
async fn ac_001_13_tp_08_a_mutation_by_an_agent_carries_the_actor_type_on_the_wake<S: Store>(
    mut case: Case<S>,
) {
    let record = case.world.send(mutation(T0, "t1", "boss", "builder", json!(1))).await;
    let run = case.outside.run_of(&record).await;
    let payload: Value = serde_json::from_str(&run.payload).unwrap();
    assert_eq!(
        payload,
        json!({
            "reason": "task_assigned",
            "task_id": "t1",
            "organization_id": "acme",
            "actor_type": "agent",
            "actor_id": "boss",
        })
    );
    assert_eq!(run.actor_type.as_deref(), Some("agent"));
    assert_eq!(run.actor_id.as_deref(), Some("boss"));
    assert_eq!(run.task_id.as_deref(), Some("t1"));
    assert_eq!(record["acting_agent_id"], "boss");
}
