//! A gate in shadow decides, says what it would have refused, and lets the wake go on.

use std::time::Duration;

use serde_json::{Value, json};
use wakegate::admission::{GateName, Shadows};
use wakegate::audit::MemoryAudit;
use wakegate::lane::process::BatchEnd;
use wakegate::store::Store;

use super::on_both_databases;
use super::scope::exhaust;
use crate::harness::case::Case;
use crate::harness::world::{MINUTE, SECOND, T0, World, brief, mutation};

on_both_databases!(
    each_gate_in_shadow_lets_through_and_tells,
    what_is_let_through_goes_on_to_the_later_gates,
    a_wake_that_the_allowance_let_through_counts,
    what_was_decided_in_shadow_repeats_once_the_gate_enforces,
    what_the_audit_stream_missed_is_told_when_the_wake_comes_again,
    a_gate_in_shadow_that_cannot_read_holds_all_the_same,
    a_gate_that_enforces_tells_nothing_of_shadows,
);

fn would_refuse<S: Store>(world: &World<S>, gate: &str, reason: &str) -> u64 {
    let labels = format!("gate=\"{gate}\",reason=\"{reason}\"");
    world.metric(&format!("wakegate_would_refuse_total{{{labels}}}"))
}

/// Subjects and message ids of what was published of gates in shadow.
fn told<S: Store>(world: &World<S>) -> Vec<(String, String)> {
    let events = world.audited().into_iter();
    let told = events.map(|event| (event.subject(), event.message_id()));
    told.filter(|(subject, _)| subject.starts_with("wake-audit.would_refuse.")).collect()
}

async fn each_gate_in_shadow_lets_through_and_tells<S: Store>(mut case: Case<S>) {
    let gates = [GateName::AgentStatus, GateName::Pause, GateName::Allowance];
    exhaust(&mut case.world).await;
    let exhausted = case.world.metric("wakegate_refusals_total{reason=\"allowance_exhausted\"}");
    case.world.bench.shadows = Shadows::of(&gates);
    case.outside.set_agent("acme", "builder", "stopped").await;
    case.outside.pause("p1", Some("acme")).await;
    let record =
        case.world.send(mutation(T0 + 2 * MINUTE, "t1", "boss", "builder", json!(70))).await;
    assert_eq!(brief(&record), "queued", "{record}");
    assert_eq!(record["run_id"], record["wake_id"]);
    assert_eq!(
        record["would_refuse"],
        json!([
            { "gate": "agent_status", "reason": "agent_stopped" },
            { "gate": "pause", "reason": "organization_paused", "pause_id": "p1" },
            {
                "gate": "allowance", "reason": "allowance_exhausted", "observed_count": 5,
                "allowance": 5, "window_seconds": 600, "retry_at": record["would_refuse"][2]["retry_at"],
            },
        ])
    );
    assert!(record["would_refuse"][2]["retry_at"].is_string());
    for absent in ["reason", "pause_id", "observed_count", "retry_at"] {
        assert!(record.get(absent).is_none(), "{absent} is a refusal's: {record}");
    }
    let id = record["wake_id"].as_str().unwrap();
    let expected = ["agent_stopped", "organization_paused", "allowance_exhausted"].map(|reason| {
        (format!("wake-audit.would_refuse.{reason}.acme"), format!("{id}.would_refuse.{reason}"))
    });
    assert_eq!(told(&case.world), expected);
    let published = case.world.audited().pop().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&published.record).unwrap(), record);
    for (gate, reason) in [
        ("agent_status", "agent_stopped"),
        ("pause", "organization_paused"),
        ("allowance", "allowance_exhausted"),
    ] {
        assert_eq!(would_refuse(&case.world, gate, reason), 1, "{gate}");
    }
    let refused = case.world.metric("wakegate_refusals_total{reason=\"allowance_exhausted\"}");
    assert_eq!(refused, exhausted, "it was no refusal");
    let allowance = case.world.allowance_counters();
    assert_eq!(allowance[0], exhausted, "nor did the allowance alter it");
    assert_eq!(case.outside.number("SELECT count(*) FROM shadowed_wakes").await, 1);
}

async fn what_is_let_through_goes_on_to_the_later_gates<S: Store>(mut case: Case<S>) {
    case.world.bench.shadows = Shadows::of(&[GateName::Pause]);
    case.outside.pause("p1", None).await;
    let first = mutation(T0, "t0", "boss", "builder", json!(1));
    let merged = mutation(T0 + SECOND, "t0", "boss", "builder", json!(2));
    let known = first.clone().at(T0 + 2 * SECOND);
    let mut outcomes = case.world.outcomes(&[first, merged, known]).await;
    exhaust(&mut case.world).await;
    let over = mutation(T0 + 2 * MINUTE, "t1", "boss", "builder", json!(71));
    let over = case.world.send(over).await;
    outcomes.push(brief(&over));
    assert_eq!(
        outcomes,
        ["queued", "coalesced", "deduplicated:windowed", "refused:allowance_exhausted"]
    );
    assert_eq!(
        over["would_refuse"],
        json!([
            { "gate": "pause", "reason": "platform_paused", "pause_id": "p1" },
        ])
    );
    assert_eq!(over["observed_count"], 5, "what enforces says why");
    let id = over["wake_id"].as_str().unwrap();
    let of_it = |subject: &str| {
        let events = case.world.audited();
        events.iter().filter(|event| event.subject() == subject).any(|event| {
            event.wake_id.to_string() == id
                && serde_json::from_str::<Value>(&event.record).unwrap() == over
        })
    };
    assert!(of_it("wake-audit.refused.allowance_exhausted.acme"));
    assert!(of_it("wake-audit.would_refuse.platform_paused.acme"));
}

async fn a_wake_that_the_allowance_let_through_counts<S: Store>(mut case: Case<S>) {
    case.world.bench.shadows = Shadows::of(&[GateName::Allowance]);
    let mut observed = Vec::new();
    for i in 1..=8 {
        let wake = mutation(T0 + i * 10 * SECOND, "t1", "boss", "builder", json!(i));
        let record = case.world.send(wake).await;
        assert_eq!(brief(&record), "queued");
        observed.push(record["would_refuse"][0]["observed_count"].as_i64());
    }
    let none = [None; 5];
    assert_eq!(observed, [&none[..], &[Some(5), Some(6), Some(7)]].concat());
    case.world.bench.shadows = Shadows::default();
    let wake = mutation(T0 + 2 * MINUTE, "t1", "boss", "builder", json!(9));
    let refused = case.world.send(wake).await;
    assert_eq!(
        (brief(&refused).as_str(), refused["observed_count"].as_i64()),
        ("refused:allowance_exhausted", Some(8))
    );
}

async fn what_was_decided_in_shadow_repeats_once_the_gate_enforces<S: Store>(mut case: Case<S>) {
    case.world.bench.shadows = Shadows::of(&[GateName::Pause]);
    case.outside.pause("p1", Some("acme")).await;
    let first = mutation(T0, "t1", "boss", "builder", json!(1));
    let merged = mutation(T0 + SECOND, "t1", "boss", "builder", json!(2));
    let known = first.clone().at(T0 + 2 * SECOND);
    let deliveries = case.world.stored(&[first, merged, known]);
    let before = case.world.work(&deliveries).await;
    let published = told(&case.world);
    assert_eq!(published.len(), 3);
    for shadows in [Shadows::of(&[GateName::Pause]), Shadows::default()] {
        case.world.bench.shadows = shadows;
        for batch in [&deliveries[..], &deliveries[2..], &deliveries[..1]] {
            let again = case.world.work(batch).await;
            let at = 3 - batch.len();
            let was = if batch.len() == 1 && batch[0].message.sequence == 1 { 0 } else { at };
            assert_eq!(again, before[was..was + batch.len()], "byte for byte");
        }
        assert_eq!(told(&case.world), published);
        assert_eq!(would_refuse(&case.world, "pause", "organization_paused"), 3);
    }
    let new = mutation(T0 + MINUTE, "t1", "boss", "builder", json!(3));
    assert_eq!(brief(&case.world.send(new).await), "refused:organization_paused");
}

/// As after a process that ended between the commit and the publication.
async fn what_the_audit_stream_missed_is_told_when_the_wake_comes_again<S: Store>(
    mut case: Case<S>,
) {
    case.world.bench.shadows = Shadows::of(&[GateName::Pause, GateName::AgentStatus]);
    case.outside.pause("p1", None).await;
    case.outside.set_agent("acme", "builder", "paused").await;
    let first = mutation(T0, "t1", "boss", "builder", json!(1));
    let known = first.clone().at(T0 + 6 * SECOND);
    let deliveries = case.world.stored(&[first, known]);
    case.world.work(&deliveries).await;
    let published = case.world.audited();
    assert_eq!(published.len(), 4);
    case.world.bench.audit = MemoryAudit::new();
    case.outside.set_agent("acme", "builder", "idle").await;
    case.world.work(&deliveries).await;
    assert_eq!(case.world.audited(), published);
}

async fn a_gate_in_shadow_that_cannot_read_holds_all_the_same<S: Store>(mut case: Case<S>) {
    case.world.bench.shadows = Shadows::of(&[GateName::Pause]);
    case.world.bench.options.store_away_give_up = Duration::ZERO;
    case.outside.execute("ALTER TABLE pauses RENAME TO taken_away").await;
    let wake = case.world.stored(&[mutation(T0, "t1", "boss", "builder", json!(1))]);
    let batch = wake.into_iter().map(std::sync::Arc::new).collect();
    let end = case.world.bench.work(case.world.cursor, batch).await;
    assert_eq!(end, BatchEnd::StoreAway);
    assert_eq!(case.outside.number("SELECT count(*) FROM runs").await, 0);
}

async fn a_gate_that_enforces_tells_nothing_of_shadows<S: Store>(mut case: Case<S>) {
    case.world.bench.shadows = Shadows::of(&[GateName::AgentStatus]);
    case.outside.pause("p1", None).await;
    let refused = case.world.send(mutation(T0, "t1", "boss", "builder", json!(1))).await;
    assert_eq!(brief(&refused), "refused:platform_paused");
    assert!(refused.get("would_refuse").is_none());
    assert!(told(&case.world).is_empty());
    assert_eq!(case.outside.number("SELECT count(*) FROM shadowed_wakes").await, 0);
}
