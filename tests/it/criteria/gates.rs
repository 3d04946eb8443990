//! Gates 1 and 2, and each gate's posture when its own read fails on a real database.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use wakegate::lane::process::BatchEnd;
use wakegate::store::Store;

use super::on_both_databases;
use crate::harness::case::Case;
use crate::harness::until;
use crate::harness::world::{MINUTE, SECOND, T0, brief, mutation, series};

on_both_databases!(
    gate_1_statuses,
    gate_1_is_within_the_organization,
    gate_2_pauses,
    posture_identity_holds,
    posture_agent_status_holds,
    posture_pause_is_closed,
    posture_duplicate_holds,
    posture_coalesce_holds,
    posture_a_read_that_no_wake_needs_holds_nobody,
    posture_what_was_decided_before_the_hold_is_settled,
    posture_a_store_that_stays_away_costs_the_lane_and_acknowledges_nothing,
);

async fn gate_1_statuses<S: Store>(mut case: Case<S>) {
    for (i, (status, expected)) in [
        (None, "queued"),
        (Some("idle"), "queued"),
        (Some("working"), "queued"),
        (Some("paused"), "refused:agent_paused"),
        (Some("stopped"), "refused:agent_stopped"),
        (Some("pending_approval"), "refused:agent_pending_approval"),
        (Some("idle"), "queued"),
    ]
    .into_iter()
    .enumerate()
    {
        if let Some(status) = status {
            case.outside.set_agent("acme", "builder", status).await;
        }
        let i = i64::try_from(i).unwrap();
        let wake = mutation(T0 + i * MINUTE, "t1", "", "builder", json!(i));
        assert_eq!(brief(&case.world.send(wake).await), expected, "{status:?}");
    }
    for reason in ["agent_paused", "agent_stopped", "agent_pending_approval"] {
        let counted = case.world.metric(&format!("wakegate_refusals_total{{reason=\"{reason}\"}}"));
        assert!(counted == 1, "{reason}: {counted}");
    }
}

async fn gate_1_is_within_the_organization<S: Store>(mut case: Case<S>) {
    case.outside.set_agent("other", "builder", "stopped").await;
    let wake = mutation(T0, "t1", "", "builder", json!(1));
    let theirs = wake.clone().with(json!({ "organization_id": "other" }));
    assert_eq!(case.world.outcomes(&[wake, theirs]).await, ["queued", "refused:agent_stopped"]);
}

async fn gate_2_pauses<S: Store>(mut case: Case<S>) {
    let mut at = T0;
    let mut wake = |organization: &str| {
        at += 10 * SECOND;
        mutation(at, "t1", "", "builder", json!(at))
            .with(json!({ "organization_id": organization }))
    };
    let both = |wake: &mut dyn FnMut(&str) -> _| [wake("acme"), wake("other"), wake("")];
    case.outside.pause("p1", Some("acme")).await;
    let events = both(&mut wake);
    assert_eq!(
        case.world.outcomes(&events).await,
        ["refused:organization_paused", "queued", "queued"]
    );
    case.outside.pause("p2", None).await;
    let events = both(&mut wake);
    assert_eq!(case.world.outcomes(&events).await, ["refused:platform_paused"; 3]);
    case.outside.resume_all().await;
    let events = both(&mut wake);
    assert_eq!(case.world.outcomes(&events).await, ["queued"; 3]);
    // A pause of the organization "" is not one of the platform, and both modes refuse.
    case.outside.pause("p3", Some("")).await;
    case.outside.execute("UPDATE pauses SET mode = 'stop_now' WHERE id = 'p3'").await;
    let events = both(&mut wake);
    assert_eq!(
        case.world.outcomes(&events).await,
        ["queued", "queued", "refused:organization_paused"]
    );
}

/// A wake that can have been decided before is not decided again while nobody can look.
async fn posture_identity_holds<S: Store>(mut case: Case<S>) {
    let delivery = case.world.stored(&[mutation(T0, "t1", "boss", "builder", json!(1))]).remove(0);
    let first = case.world.work(std::slice::from_ref(&delivery)).await.remove(0);
    case.outside.execute("ALTER TABLE refused_wakes RENAME TO taken_away").await;
    let metrics = case.world.bench.metrics.clone();
    let outside = case.outside.clone();
    let holding = case.world.bench.holding.subscribe();
    let (records, ()) = tokio::join!(case.world.work(std::slice::from_ref(&delivery)), async {
        let errors = "wakegate_gate_errors_total{gate=\"identity\"}";
        until(|| series(&metrics, errors) >= 2).await;
        assert!(holding.borrow().is_some(), "the lane says what it waits for");
        assert!(series(&metrics, "wakegate_lane_holds_total{cause=\"store\"}") > 0);
        outside.execute("UPDATE runs SET status = 'claimed'").await;
        outside.execute("ALTER TABLE taken_away RENAME TO refused_wakes").await;
    });
    assert_eq!(records, [first]);
    assert_eq!(case.outside.run_count().await, 1);
}

/// The stop arrives during the hold, with the very table that was away.
async fn posture_agent_status_holds<S: Store>(mut case: Case<S>) {
    case.outside.set_agent("acme", "builder", "idle").await;
    case.outside.execute("ALTER TABLE agents RENAME TO taken_away").await;
    let metrics = case.world.bench.metrics.clone();
    let outside = case.outside.clone();
    let wake = mutation(T0, "t1", "boss", "builder", json!(1));
    let (record, ()) = tokio::join!(case.world.send(wake), async {
        let errors = "wakegate_gate_errors_total{gate=\"agent_status\"}";
        until(|| series(&metrics, errors) >= 2).await;
        assert_eq!(outside.run_count().await, 0);
        outside.execute("UPDATE taken_away SET status = 'stopped'").await;
        outside.execute("ALTER TABLE taken_away RENAME TO agents").await;
    });
    assert_eq!(brief(&record), "refused:agent_stopped", "decided from fresh facts");
}

/// Closed: while the pauses cannot be read nothing is admitted, by whatever gate stands behind.
async fn posture_pause_is_closed<S: Store>(mut case: Case<S>) {
    case.outside.execute("ALTER TABLE pauses RENAME TO taken_away").await;
    let metrics = case.world.bench.metrics.clone();
    let outside = case.outside.clone();
    let wakes: Vec<_> =
        (0..20).map(|i| mutation(T0 + i, &format!("t{i}"), "", "builder", json!(i))).collect();
    let (records, ()) = tokio::join!(case.world.batch(&wakes), async {
        let errors = "wakegate_gate_errors_total{gate=\"pause\"}";
        until(|| series(&metrics, errors) >= 2).await;
        assert_eq!(outside.run_count().await, 0, "a kill switch that fails open is none");
        outside.execute("ALTER TABLE taken_away RENAME TO pauses").await;
        outside.pause("p1", Some("acme")).await;
    });
    // The pause may have been set just after the batch was decided anew: either every wake was let
    // through before it, or every one refused; none was admitted while the state was unreadable.
    let outcomes: std::collections::BTreeSet<String> = records.iter().map(brief).collect();
    assert_eq!(outcomes.len(), 1, "{outcomes:?}");
}

async fn posture_duplicate_holds<S: Store>(mut case: Case<S>) {
    let wake = mutation(T0, "t1", "boss", "builder", json!(1));
    assert_eq!(brief(&case.world.send(wake.clone()).await), "queued");
    case.outside.execute("ALTER TABLE wake_keys RENAME TO taken_away").await;
    let metrics = case.world.bench.metrics.clone();
    let outside = case.outside.clone();
    let (record, ()) = tokio::join!(case.world.send(wake.at(T0 + MINUTE)), async {
        let errors = "wakegate_gate_errors_total{gate=\"duplicate\"}";
        until(|| series(&metrics, errors) >= 2).await;
        outside.execute("ALTER TABLE taken_away RENAME TO wake_keys").await;
    });
    assert_eq!(brief(&record), "deduplicated:windowed", "held, not admitted twice");
    assert_eq!(case.outside.run_count().await, 1);
}

async fn posture_coalesce_holds<S: Store>(mut case: Case<S>) {
    assert_eq!(
        brief(&case.world.send(mutation(T0, "t1", "", "builder", json!(1))).await),
        "queued"
    );
    let definition = case.outside.take_view("mergeable_runs").await;
    let metrics = case.world.bench.metrics.clone();
    let outside = case.outside.clone();
    let second = mutation(T0 + SECOND, "t1", "", "builder", json!(2));
    let (record, ()) = tokio::join!(case.world.send(second), async {
        let errors = "wakegate_gate_errors_total{gate=\"coalesce\"}";
        until(|| series(&metrics, errors) >= 2).await;
        outside.execute(&definition).await;
    });
    assert_eq!(brief(&record), "coalesced");
}

async fn posture_a_read_that_no_wake_needs_holds_nobody<S: Store>(mut case: Case<S>) {
    case.outside.execute("DROP VIEW mergeable_runs; DROP VIEW counted_runs").await;
    case.world.bench.options.store_away_give_up = Duration::from_secs(5);
    // A comment's wake asks neither what it could join nor what its task used up.
    let event = crate::harness::world::requested(
        T0,
        "builder",
        json!({ "task_id": "t1" }),
        Some("task_comment:c1:builder"),
    )
    .with(json!({ "reason": "task_comment" }));
    assert_eq!(brief(&case.world.send(event).await), "queued");
}

/// As one at a time: the wakes before the one that must wait are not held back by it.
async fn posture_what_was_decided_before_the_hold_is_settled<S: Store>(mut case: Case<S>) {
    let definition = case.outside.take_view("mergeable_runs").await;
    let comment = |i: i64| {
        crate::harness::world::requested(
            T0 + i,
            "builder",
            json!({ "task_id": "t1" }),
            Some(&format!("task_comment:c{i}:builder")),
        )
        .with(json!({ "reason": "task_comment" }))
    };
    let batch =
        [comment(1), comment(2), mutation(T0 + 3, "t1", "", "builder", json!(1)), comment(4)];
    let metrics = case.world.bench.metrics.clone();
    let outside = case.outside.clone();
    let (records, ()) = tokio::join!(case.world.batch(&batch), async {
        let errors = "wakegate_gate_errors_total{gate=\"coalesce\"}";
        until(|| series(&metrics, errors) >= 2).await;
        assert_eq!(outside.run_count().await, 2, "the two before it are durable");
        outside.execute(&definition).await;
    });
    let outcomes: Vec<String> = records.iter().map(brief).collect();
    assert_eq!(outcomes, ["queued"; 4]);
}

/// So that a healthy standby can have the lane; what was delivered comes again there.
async fn posture_a_store_that_stays_away_costs_the_lane_and_acknowledges_nothing<S: Store>(
    mut case: Case<S>,
) {
    case.outside.execute("ALTER TABLE agents RENAME TO taken_away").await;
    case.world.bench.options.store_away_give_up = Duration::from_millis(50);
    let wakes: Vec<_> =
        (0..3).map(|i| mutation(T0 + i, &format!("t{i}"), "", "builder", json!(i))).collect();
    let deliveries = case.world.stored(&wakes);
    let end = case
        .world
        .bench
        .work(case.world.cursor, deliveries.iter().cloned().map(Arc::new).collect())
        .await;
    assert_eq!(end, BatchEnd::StoreAway);
    assert!(case.world.acknowledged().is_empty());
    assert_eq!(case.outside.run_count().await, 0);
    case.outside.execute("ALTER TABLE taken_away RENAME TO agents").await;
    let outcomes: Vec<String> = case.world.work(&deliveries).await.iter().map(brief).collect();
    assert_eq!(outcomes, ["queued"; 3]);
}
