//! A refusal is never silent (AC-…-003.1 to .6).

use serde_json::json;
use wakegate::outcome::OutcomeKind;
use wakegate::store::Store;

use super::on_both_databases;
use super::scope::exhaust;
use crate::harness::case::Case;
use crate::harness::logs::Logs;
use crate::harness::world::{MINUTE, SECOND, T0, brief, mutation, requested};

on_both_databases!(
    ac_003_01_tp_19_every_refusal_and_degraded_admission_moves_its_counter,
    ac_003_02_no_identifier_is_ever_a_label,
    ac_003_03_tp_19_a_refusal_is_logged_with_its_five_fields,
    ac_003_04_tp_19_an_admission_that_was_not_altered_moves_none,
    ac_003_05_a_refusal_is_told_from_every_other_outcome,
    ac_003_06_the_counter_is_scraped_with_the_deduplication_counters,
);

async fn ac_003_01_tp_19_every_refusal_and_degraded_admission_moves_its_counter<S: Store>(
    mut case: Case<S>,
) {
    exhaust(&mut case.world).await;
    assert_eq!(case.world.allowance_counters(), [1, 0, 0]);
    let payload = json!({ "actor_type": "agent" });
    case.world.send(requested(T0 + 2 * MINUTE, "builder", payload, None)).await;
    assert_eq!(case.world.allowance_counters(), [1, 0, 1]);
    case.outside.take_view("counted_runs").await;
    case.world.send(mutation(T0 + 3 * MINUTE, "t1", "boss", "builder", json!(9))).await;
    assert_eq!(case.world.allowance_counters(), [1, 1, 1]);
    let rendered = case.world.bench.metrics.render();
    let reasons = rendered
        .lines()
        .filter(|line| line.starts_with("wakegate_assignment_allowance_total{"))
        .count();
    assert_eq!(reasons, 3, "a closed set of three");
}

async fn ac_003_02_no_identifier_is_ever_a_label<S: Store>(mut case: Case<S>) {
    let series = |rendered: &str| -> Vec<String> {
        rendered
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.rsplit_once(' ').map(|(name, _)| name.to_owned()))
            .collect()
    };
    let before = series(&case.world.bench.metrics.render());
    exhaust(&mut case.world).await;
    for (i, hostile) in
        ["*", ">", "a.b", "a b", "q\"}", "line\nfeed", "\u{202e}x", "'; DROP TABLE runs; --"]
            .into_iter()
            .enumerate()
    {
        let at = T0 + 2 * MINUTE + i64::try_from(i).unwrap() * 10 * SECOND;
        let event = mutation(at, hostile, hostile, hostile, json!(1))
            .with(json!({ "organization_id": hostile, "project_id": hostile }));
        assert_eq!(brief(&case.world.send(event).await), "queued", "{hostile:?}");
    }
    let foreign = mutation(T0 + 5 * MINUTE, "t9", "", "builder", json!(1)).by_producer("anyone");
    assert_eq!(brief(&case.world.send(foreign).await), "queued");
    assert_eq!(series(&case.world.bench.metrics.render()), before, "traffic adds no series");
}

async fn ac_003_03_tp_19_a_refusal_is_logged_with_its_five_fields<S: Store>(mut case: Case<S>) {
    let (logs, _guard) = Logs::capture();
    exhaust(&mut case.world).await;
    let lines = logs.warnings("allowance exhausted");
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = &lines[0];
    assert_eq!(line["task_id"], "t1");
    assert_eq!(line["agent_profile_id"], "builder");
    assert_eq!(line["acting_agent_id"], "boss");
    assert_eq!(line["observed_count"], 5);
    assert_eq!(line["allowance"], 5);
}

async fn ac_003_04_tp_19_an_admission_that_was_not_altered_moves_none<S: Store>(mut case: Case<S>) {
    for i in 1..=5 {
        let wake = mutation(T0 + i * 10 * SECOND, "t1", "boss", "builder", json!(i));
        assert_eq!(brief(&case.world.send(wake).await), "queued");
    }
    assert_eq!(case.world.allowance_counters(), [0; 3]);
    assert!(case.world.audited().is_empty(), "nor is anything published");
}

/// One type declares the outcomes here, where the reference had two declarations to keep equal.
async fn ac_003_05_a_refusal_is_told_from_every_other_outcome<S: Store>(mut case: Case<S>) {
    let names: Vec<&str> = OutcomeKind::ALL.into_iter().map(OutcomeKind::as_str).collect();
    let distinct: std::collections::BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(distinct.len(), names.len());
    exhaust(&mut case.world).await;
    let at = T0 + 2 * MINUTE;
    let refused = case.world.send(mutation(at, "t1", "boss", "builder", json!(7))).await;
    assert_eq!(refused["outcome"], "refused");
    assert_eq!(refused["reason"], "allowance_exhausted");
    let none = case.world.send(mutation(at + SECOND, "t1", "boss", "", json!(8))).await;
    assert_eq!(none["outcome"], "no_wake", "no enqueue attempted is another outcome");
    let counted =
        case.world.metric("wakegate_wakes_total{outcome=\"refused\",producer=\"task_mutation\"}");
    assert!(counted == 2);
}

async fn ac_003_06_the_counter_is_scraped_with_the_deduplication_counters<S: Store>(case: Case<S>) {
    let rendered = case.world.bench.metrics.render();
    for family in
        ["wakegate_assignment_allowance_total", "wakegate_dedup_total", "wakegate_keyless_total"]
    {
        assert!(rendered.contains(&format!("# TYPE {family} counter")), "{family}");
    }
}
