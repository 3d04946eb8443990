//! The allowance fails open, counted and logged (AC-…-002.2, .3).

use serde_json::{Value, json};
use wakegate::store::Store;

use super::on_both_databases;
use super::scope::exhaust;
use crate::harness::case::Case;
use crate::harness::flaky::{FailsOnce, Flaky};
use crate::harness::logs::Logs;
use crate::harness::world::{MINUTE, SECOND, T0, brief, mutation, requested};

on_both_databases!(
    ac_002_02_tp_13_a_failing_count_read_admits_counts_and_logs,
    ac_002_02_a_read_that_recovers_at_once_is_not_degraded,
    ac_002_03_tp_13_an_unattributable_task_admits_counts_and_logs,
);

async fn ac_002_02_tp_13_a_failing_count_read_admits_counts_and_logs<S: Store>(mut case: Case<S>) {
    exhaust(&mut case.world).await;
    let definition = case.outside.take_view("counted_runs").await;
    let (logs, _guard) = Logs::capture();
    let record =
        case.world.send(mutation(T0 + 2 * MINUTE, "t1", "boss", "builder", json!(7))).await;
    assert_eq!(brief(&record), "queued/count_read_failed");
    assert_eq!(record.get("observed_count"), None, "the failed read produced none");
    assert_eq!(record["allowance"], 5);
    assert_eq!(record["task_id"], "t1");
    assert_eq!(case.world.allowance_counters(), [1, 1, 0]);
    assert!(case.world.metric("wakegate_gate_errors_total{gate=\"allowance\"}") > 0);
    let run = case.outside.run_of(&record).await;
    assert_eq!(run.degraded_reason.as_deref(), Some("count_read_failed"));

    let warnings = logs.warnings("count could not be read");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let line = &warnings[0];
    assert_eq!(line["task_id"], "t1");
    assert_eq!(line["agent_profile_id"], "builder");
    assert_eq!(line["acting_agent_id"], "boss");
    assert_eq!(line["allowance"], 5);
    assert!(line["error"].as_str().is_some_and(|error| error.contains("counted_runs")), "{line}");
    assert_eq!(line.get("observed_count"), None);

    let audited = case.world.audited();
    let subjects: Vec<String> = audited.iter().map(wakegate::audit::AuditEvent::subject).collect();
    assert!(subjects.contains(&"wake-audit.degraded.count_read_failed.acme".to_owned()));

    // Once it can be read again, it binds again, and the degraded admission counts.
    case.outside.execute(&definition).await;
    let next = mutation(T0 + 3 * MINUTE, "t1", "boss", "builder", json!(8));
    let record = case.world.send(next).await;
    assert_eq!(brief(&record), "refused:allowance_exhausted");
    assert_eq!(record["observed_count"], 6);
}

/// Reads once more, alone, before the gate opens: a blip costs nothing. The first read fails on a
/// statement time-out behind a lock that is gone by the second.
async fn ac_002_02_a_read_that_recovers_at_once_is_not_degraded<S: Store>(mut case: Case<S>) {
    use wakegate::lane::facts::{Asking, load};
    exhaust(&mut case.world).await;
    let wake = mutation(T0 + 2 * MINUTE, "t1", "boss", "builder", json!(7));
    let delivery = case.world.stored(&[wake]).remove(0);
    let event = wakegate::wake::decode::decode(&delivery.message);
    let wakegate::wake::decode::Content::Wake(wake) = &event.content else { panic!("a wake") };
    let flaky = Flaky::<_, FailsOnce>::new(case.world.bench.store.clone());
    let asking = Asking { doubtful: false, ceilings: None, told: false };
    let loaded = load(&flaky, case.world.cursor, &[wake], asking).await;
    assert!(loaded.failed.is_empty(), "{:?}", loaded.failed);
    let counted = loaded.facts.counted.expect("read at the second attempt");
    assert_eq!(counted.by_task.values().map(std::collections::BTreeSet::len).sum::<usize>(), 5);
    assert_eq!(flaky.faults.counted_reads(), 2);
}

async fn ac_002_03_tp_13_an_unattributable_task_admits_counts_and_logs<S: Store>(
    mut case: Case<S>,
) {
    exhaust(&mut case.world).await;
    let (logs, _guard) = Logs::capture();
    for (i, (payload, acting)) in [
        (json!({ "actor_type": "agent", "actor_id": "boss" }), Some("boss")),
        (json!({ "actor_type": "agent", "task_id": null }), None),
    ]
    .into_iter()
    .enumerate()
    {
        let at = T0 + 2 * MINUTE + i64::try_from(i).unwrap() * 10 * SECOND;
        let record = case.world.send(requested(at, "builder", payload, None)).await;
        assert_eq!(brief(&record), "queued/task_unattributed");
        assert_eq!(record.get("task_id"), None);
        assert_eq!(record["allowance"], 5);
        let lines = logs.warnings("names no task");
        assert_eq!(lines.len(), i + 1);
        let line = &lines[i];
        assert_eq!(line["reason"], "task_unattributed");
        assert_eq!(line["allowance"], 5);
        assert_eq!(line.get("acting_agent_id").and_then(Value::as_str), acting);
        assert_eq!(line.get("task_id"), None, "it is what could not be determined");
        assert_eq!(line.get("observed_count"), None);
    }
    assert_eq!(case.world.allowance_counters(), [1, 0, 2]);
}
