//! What becomes of an event, as rows, audit events, replies and metrics tell it.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use serde_json::{Value, json};

use super::on_both_databases;
use super::stage::{Audited, Dialect, Stage};
use super::story::{Told, tell};
use crate::harness::worker::Series;

on_both_databases!(
    rows_audit_events_replies_and_metrics_tell_the_same_of_every_outcome,
    a_redelivery_of_every_outcome_changes_nothing_whatever_the_world_has_become,
);

/// Counters that an outcome moves.
const COUNTERS: [&str; 8] = [
    "wakegate_wakes_total",
    "wakegate_refusals_total",
    "wakegate_rejected_total",
    "wakegate_assignment_allowance_total",
    "wakegate_dedup_total",
    "wakegate_keyless_total",
    "wakegate_contract_violations_total",
    "wakegate_wake_latency_seconds_count",
];
/// Most bytes of a body that an audit event carries.
const AUDIT_BODY_BYTES_MAX: usize = 64 * 1_024;

async fn rows_audit_events_replies_and_metrics_tell_the_same_of_every_outcome(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let worker = stage.worker().await;
    let told = tell(&stage).await;
    stage.settled().await;

    assert_eq!(worker.moved(&COUNTERS).await, expected_counters(&told));
    check_audit(&told, &stage.audited().await);
    check_rows(&stage, &told).await;
    check_records(&told);
    let quiet = ["wakegate_redeliveries_total", "wakegate_lane_holds_total"];
    assert_eq!(worker.moved(&quiet[1..]).await, Series::new(), "{}", worker.log());
}

fn text<'a>(record: &'a Value, name: &str) -> &'a str {
    record[name].as_str().unwrap_or_default()
}

/// The counters as the outcomes say they must be.
fn expected_counters(told: &[Told]) -> Series {
    let mut series = Series::new();
    let mut count = |name: String| *series.entry(name).or_default() += 1.0;
    for Told { record, .. } in told {
        let (outcome, reason) = (text(record, "outcome"), text(record, "reason"));
        let producer = text(record, "producer");
        count(format!("wakegate_wakes_total{{outcome=\"{outcome}\",producer=\"{producer}\"}}"));
        count("wakegate_wake_latency_seconds_count".to_owned());
        match outcome {
            "refused" => count(format!("wakegate_refusals_total{{reason=\"{reason}\"}}")),
            "rejected" => count(format!("wakegate_rejected_total{{reason=\"{reason}\"}}")),
            "deduplicated" => count(format!("wakegate_dedup_total{{kind=\"{reason}\"}}")),
            _ => {}
        }
        let degraded = text(record, "degraded_reason");
        for acted in [reason, degraded] {
            if ["allowance_exhausted", "task_unattributed"].contains(&acted) {
                count(format!("wakegate_assignment_allowance_total{{reason=\"{acted}\"}}"));
            }
        }
    }
    // One wake has no key, by its publisher's choice; one names an agent as actor though its
    // producer may not.
    count("wakegate_keyless_total{cause=\"by_design\"}".to_owned());
    count("wakegate_contract_violations_total{kind=\"foreign_agent_actor\"}".to_owned());
    series
}

/// One event for each refusal, degraded admission and rejection, and no other.
fn check_audit(told: &[Told], audited: &[Audited]) {
    let mut expected = BTreeMap::new();
    for Told { record, body, .. } in told {
        let degraded = text(record, "degraded_reason");
        let (class, reason) = match text(record, "outcome") {
            "queued" if !degraded.is_empty() => ("degraded", degraded),
            class @ ("refused" | "rejected") => (class, text(record, "reason")),
            _ => continue,
        };
        let organization = match text(record, "organization_id") {
            // A body that cannot be trusted leaves the subject's.
            "" if reason == "subject_mismatch" => "globex",
            "" => "acme",
            organization => organization,
        };
        let mut record = record.clone();
        if class == "rejected" {
            assert_eq!(record["body_bytes"], body.len());
            let kept = &body[..body.len().min(AUDIT_BODY_BYTES_MAX)];
            record["body_base64"] = json!(base64::engine::general_purpose::STANDARD.encode(kept));
        }
        expected.insert(
            format!("{}.{class}.{reason}", text(&record, "wake_id")),
            (format!("wake-audit.{class}.{reason}.{organization}"), record),
        );
    }
    let found: BTreeMap<_, _> = audited
        .iter()
        .map(|event| (event.message_id.clone(), (event.subject.clone(), event.record.clone())))
        .collect();
    assert_eq!(found.len(), audited.len(), "each event once");
    assert_eq!(found, expected);
}

/// A run for each admission, under the id of its wake; a row for each merge and each refusal.
async fn check_rows(stage: &Stage, told: &[Told]) {
    let ids = |outcome: &str| -> BTreeSet<String> {
        told.iter()
            .filter(|told| text(&told.record, "outcome") == outcome)
            .map(|told| text(&told.record, "wake_id").to_owned())
            .collect()
    };
    let runs = stage.outside.runs().await;
    let found: BTreeSet<String> = runs.iter().map(|run| run.id.clone()).collect();
    assert_eq!(found, ids("queued"));
    let rows = stage.rows().await;
    for (table, outcome) in [("merged_wakes", "coalesced"), ("refused_wakes", "refused")] {
        let of_table: Vec<&String> = rows.iter().filter(|row| row.starts_with(table)).collect();
        let ids = ids(outcome);
        assert_eq!(of_table.len(), ids.len(), "{table}: {of_table:?}");
        assert!(ids.iter().all(|id| of_table.iter().any(|row| row.contains(id))), "{of_table:?}");
    }
    for Told { record, .. } in told {
        let Some(run) = runs.iter().find(|run| run.id == text(record, "run_id")) else {
            assert!(record.get("run_id").is_none(), "{record} names a run that is not there");
            continue;
        };
        assert_eq!(run.organization_id, text(record, "organization_id"));
        assert_eq!(run.agent_profile_id, text(record, "agent_profile_id"));
        assert_eq!(run.task_id.as_deref(), record["task_id"].as_str());
        if record["outcome"] == "queued" {
            assert_eq!(run.degraded_reason.as_deref(), record["degraded_reason"].as_str());
            assert_eq!(run.idempotency_key.as_deref(), record["idempotency_key"].as_str());
        }
    }
    let merged = runs.iter().find(|run| run.task_id.as_deref() == Some("t1")).unwrap();
    assert_eq!(merged.coalesced_count, 2);
}

/// The fields that the contract promises of the outcomes that carry some of their own.
fn check_records(told: &[Told]) {
    let find = |reason: &str| {
        let has = |told: &&Told| {
            [&told.record["reason"], &told.record["degraded_reason"]].contains(&&json!(reason))
        };
        &told.iter().find(has).unwrap_or_else(|| panic!("{reason} is told of")).record
    };
    let exhausted = find("allowance_exhausted");
    for (name, value) in [
        ("observed_count", json!(5)),
        ("allowance", json!(5)),
        ("window_seconds", json!(600)),
        ("task_id", json!("t5")),
        ("agent_profile_id", json!("b6")),
        ("acting_agent_id", json!("lead")),
        ("organization_id", json!("acme")),
        ("producer", json!("task_mutation")),
        ("stream", json!("WAKES")),
        ("idempotency_key", json!("task_assigned:t5:b6:1")),
    ] {
        assert_eq!(exhausted[name], value, "{name}");
    }
    // The next one fits when the oldest of the five leaves the window of ten minutes.
    let oldest = told.iter().find(|told| told.record["agent_profile_id"] == "b1").unwrap();
    let (minutes, rest) = minutes_and_rest(text(&oldest.record, "requested_at"));
    let (retry_minutes, retry_rest) = minutes_and_rest(text(exhausted, "retry_at"));
    assert_eq!((retry_minutes - minutes).rem_euclid(24 * 60), 10);
    assert_eq!(retry_rest, rest);

    let unattributed = find("task_unattributed");
    assert!(unattributed.get("task_id").is_none());
    assert_eq!(unattributed["window_seconds"], 600);
    assert_eq!(find("platform_paused")["pause_id"], "pause-platform");
    assert_eq!(find("organization_paused")["pause_id"], "pause-initech");
    for record in told.iter().map(|told| &told.record) {
        let (wake, decided) = (text(record, "wake_id"), text(record, "decided_at"));
        assert_eq!(uuid::Uuid::parse_str(wake).unwrap().get_version_num(), 7);
        assert_eq!(decided.len(), "2026-11-01T12:00:00.000000Z".len());
        assert!(decided.ends_with('Z'), "{decided}");
    }
}

/// Minutes of the day, and seconds with their fraction, of an RFC 3339 instant.
fn minutes_and_rest(instant: &str) -> (i64, String) {
    let (_, time) = instant.split_once('T').expect("an instant");
    let mut parts = time.splitn(3, ':');
    let mut next = || parts.next().expect("three parts");
    let hours: i64 = next().parse().unwrap();
    let minutes: i64 = next().parse().unwrap();
    (hours * 60 + minutes, next().to_owned())
}

async fn a_redelivery_of_every_outcome_changes_nothing_whatever_the_world_has_become(
    dialect: Dialect,
) {
    let stage = Stage::set(dialect).await;
    let mut worker = stage.worker().await;
    let told = tell(&stage).await;
    stage.settled().await;
    worker.signal("TERM");
    assert_eq!(worker.ended().await.code(), Some(0), "{}", worker.log());

    // Every refusal would be an admission now, and every admission a refusal.
    for agent in ["paused", "stopped", "pending_approval"] {
        stage.outside.set_agent("acme", agent, "idle").await;
    }
    for agent in ["a1", "a2", "a3", "a4"] {
        stage.outside.set_agent("acme", agent, "stopped").await;
    }
    stage.outside.pause("pause-acme", Some("acme")).await;
    stage.outside.claim_all().await;
    stage.outside.execute("UPDATE runs SET actor_type = 'user' WHERE task_id = 't5'").await;
    let (rows, audited) = (stage.rows().await, stage.audited().await);

    stage.deliver_everything_again().await;
    let worker = stage.worker().await;
    for Told { asked, record, .. } in &told {
        let repeated = stage.outcome(asked).await;
        assert_eq!(comparable(&repeated), comparable(record));
    }
    stage.settled().await;
    assert_eq!(stage.rows().await, rows);
    assert_eq!(stage.audited().await, audited);
    assert_eq!(worker.moved(&COUNTERS).await, Series::new(), "a repeat moves no counter");
    drop(worker);

    // Once more, and everything else that a third delivery sets in motion.
    stage.deliver_everything_again().await;
    stage.catch_up();
    assert_eq!(stage.rows().await, rows);
    assert_eq!(stage.audited().await, audited);
}

/// A record without when it was decided, of outcomes that leave no row to keep that.
fn comparable(record: &Value) -> Value {
    let mut record = record.clone();
    let outcome = text(&record, "outcome").to_owned();
    let fields = record.as_object_mut().unwrap();
    if ["deduplicated", "no_wake", "rejected"].contains(&outcome.as_str()) {
        fields.remove("decided_at");
    }
    record
}
