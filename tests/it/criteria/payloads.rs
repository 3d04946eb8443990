//! The predicate's order and the payload shapes it meets (AC-…-001.1, -002.3).

use bytes::Bytes;
use serde_json::{Value, json};
use wakegate::store::Store;

use super::on_both_databases;
use crate::harness::case::Case;
use crate::harness::world::{Published, SECOND, T0, brief, requested};

on_both_databases!(
    ac_002_03_tp_14_neither_actor_nor_task_moves_no_counter,
    ac_002_03_tp_18_task_shapes_and_an_unparseable_payload_are_told_apart,
    ac_001_01_nothing_a_producer_writes_puts_an_object_out_of_scope,
);

async fn ac_002_03_tp_14_neither_actor_nor_task_moves_no_counter<S: Store>(mut case: Case<S>) {
    for (i, payload) in
        [json!({}), json!({ "task_id": null }), json!({ "task_id": 42 })].into_iter().enumerate()
    {
        let at = T0 + i64::try_from(i).unwrap() * 10 * SECOND;
        let record = case.world.send(requested(at, "builder", payload, None)).await;
        assert_eq!(brief(&record), "queued");
    }
    assert_eq!(case.world.allowance_counters(), [0; 3]);
}

async fn ac_002_03_tp_18_task_shapes_and_an_unparseable_payload_are_told_apart<S: Store>(
    mut case: Case<S>,
) {
    let agent = |task: Value| json!({ "actor_type": "agent", "task_id": task });
    let mut unattributed = 0;
    for (i, (payload, expected)) in [
        (json!({ "actor_type": "agent" }), "queued/task_unattributed"),
        (agent(Value::Null), "queued/task_unattributed"),
        (agent(json!("")), "queued/task_unattributed"),
        (agent(json!(42)), "queued/task_unattributed"),
        (agent(json!(["t1"])), "queued/task_unattributed"),
        (agent(json!({ "task_id": "t1" })), "queued/task_unattributed"),
        (agent(json!(true)), "queued/task_unattributed"),
        // No object has no readable actor: it leaves at the actor step and no counter moves.
        (json!("{\"actor_type\":\"agent\",\"task_id\":\"t1\""), "queued"),
        (json!("not json at all"), "queued"),
        (json!([{ "actor_type": "agent" }]), "queued"),
        (json!(7), "queued"),
        (Value::Null, "queued"),
        // A string that holds an encoded object is that object.
        (json!("{\"actor_type\":\"agent\"}"), "queued/task_unattributed"),
    ]
    .into_iter()
    .enumerate()
    {
        let at = T0 + i64::try_from(i).unwrap() * 10 * SECOND;
        let record = case.world.send(requested(at, "builder", payload.clone(), None)).await;
        assert_eq!(brief(&record), expected, "{payload}");
        unattributed += u64::from(expected.ends_with("unattributed"));
        assert_eq!(case.world.allowance_counters(), [0, 0, unattributed], "{payload}");
    }
}

/// Each is an object by an agent for `t1`, however it is written; five are admitted, the rest
/// refused. Were one of them "unparseable", it would be admitted without consuming.
async fn ac_001_01_nothing_a_producer_writes_puts_an_object_out_of_scope<S: Store>(
    mut case: Case<S>,
) {
    let deep_array = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_object = format!("{}1{}", "{\"a\":".repeat(30_000), "}".repeat(30_000));
    let long_number = format!("-{}.{}e+{}", "9".repeat(20_000), "1".repeat(20_000), "9".repeat(99));
    let fields = r#""actor_type":"agent","task_id":"t1""#;
    let payloads = [
        format!("{{{fields}}}"),
        format!("{{\"deep\":{deep_array},{fields}}}"),
        format!("{{\"deep\":{deep_object},{fields}}}"),
        format!("{{\"n\":{long_number},{fields}}}"),
        format!("{{\"nul\":\"\\u0000\",{fields}}}"),
        format!("{{\"lone\":\"\\ud800\",\"\\udfff\":1,{fields}}}"),
        "\r\n\t {\t\"actor_type\"\n:\r\"agent\" , \"task_id\" : \"t1\" } \n".to_owned(),
        format!("{{\"task_id\":42,\"actor_type\":\"user\",{fields}}}"),
        format!("{{{fields},\"task_id\":\"t1\"}}"),
        "{\"\\u0061ctor_type\":\"\\u0061gent\",\"task\\u005fid\":\"\\u00741\"}".to_owned(),
    ];
    for (i, payload) in payloads.iter().enumerate() {
        for encoded in [false, true] {
            let n = 2 * i64::try_from(i).unwrap() + i64::from(encoded);
            let payload = if encoded { json!(payload).to_string() } else { payload.clone() };
            let body = format!(
                "{{\"type\":\"wake.requested.v1\",\"organization_id\":\"acme\",\
                 \"reason\":\"task_assigned\",\"agent_profile_id\":\"builder\",\
                 \"payload\":{payload}}}"
            );
            let blank =
                Published::of("task_mutation", "acme", "t1", &json!({}), T0 + n * 10 * SECOND);
            let record = case.world.send(Published { body: Bytes::from(body), ..blank }).await;
            let expected = if n < 5 { "queued" } else { "refused:allowance_exhausted" };
            let shown: String = payload.chars().take(80).collect();
            assert_eq!(brief(&record), expected, "number {n}: {shown}");
        }
    }
}
