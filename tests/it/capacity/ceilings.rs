//! Gate 6 on its own: what is full, what is said of it, and what never meets it.

use serde_json::{Value, json};
use wakegate::admission::limits::Dimension;
use wakegate::admission::{GateName, Shadows};
use wakegate::audit::AuditClass;
use wakegate::store::Store;

use super::{limit, on_both_databases, own_limits, wake};
use crate::harness::case::Case;
use crate::harness::until;
use crate::harness::world::{MINUTE, SECOND, T0, brief, mutation, series};

on_both_databases!(
    seed_004_with_a_capacity_of_2_the_third_is_refused_and_never_handled,
    seed_004_in_one_batch_each_admission_takes_room,
    seed_004_an_overload_correlates_by_its_trace,
    seed_004_what_is_accepted_is_never_dropped_to_make_room,
    seed_004_a_full_queue_answers_every_wake_and_holds_nobody,
    seed_003_a_ceiling_of_0_is_none,
    the_widest_boundary_that_is_full_is_named,
    a_run_without_a_project_meets_no_projects_ceiling,
    room_that_is_made_is_taken,
    seed_004_a_queue_that_drains_says_when_to_try_again,
    what_merges_or_deduplicates_never_meets_the_ceilings,
    a_refusal_is_repeated_though_there_is_room_by_now,
    posture_capacity_holds,
    without_ceilings_nobody_asks,
    in_shadow_what_has_no_room_is_let_through_and_takes_it,
);

async fn seed_004_with_a_capacity_of_2_the_third_is_refused_and_never_handled<S: Store>(
    mut case: Case<S>,
) {
    limit(&mut case.world, &[(Dimension::QueuedOrganization, 2)]);
    assert_eq!(case.world.outcomes(&[wake(1), wake(2)]).await, ["queued", "queued"]);
    let before = case.outside.runs().await;
    let record = case.world.send(wake(3)).await;
    assert_eq!(brief(&record), "refused:capacity_exhausted");
    let overload = &record["overload"];
    assert_eq!(
        *overload,
        json!({
            "boundary": "queued_runs.organization",
            "component": "worker-of-a-test",
            "reason": "queue_full",
            "depth": 2,
            "capacity": 2,
            "policy": "reject",
            "layer": "platform",
            "correlation_id": record["wake_id"],
            "at": record["decided_at"],
        }),
        "nothing has drained, so nothing justifies to say when to retry"
    );
    assert_eq!(record.get("run_id"), None);
    // Never handled: no run, no merge, no key; only the refusal is on record.
    assert_eq!(case.outside.runs().await, before);
    for (table, rows) in [("merged_wakes", 0), ("wake_keys", 2), ("refused_wakes", 1)] {
        assert_eq!(case.outside.number(&format!("SELECT count(*) FROM {table}")).await, rows);
    }
    let audited = case.world.audited();
    assert_eq!(audited.len(), 1);
    assert_eq!(
        (audited[0].class, audited[0].reason.as_str()),
        (AuditClass::Refused, "capacity_exhausted")
    );
    assert_eq!(serde_json::from_str::<Value>(&audited[0].record).unwrap(), record);
    for (series, count) in [
        ("wakegate_refusals_total{reason=\"capacity_exhausted\"}", 1),
        ("wakegate_overloads_total{boundary=\"queued_runs.organization\",layer=\"platform\"}", 1),
        ("wakegate_overloads_total{boundary=\"queued_runs.platform\",layer=\"platform\"}", 0),
    ] {
        assert_eq!(case.world.metric(series), count, "{series}");
    }
}

async fn seed_004_in_one_batch_each_admission_takes_room<S: Store>(mut case: Case<S>) {
    limit(&mut case.world, &[(Dimension::QueuedOrganization, 2)]);
    let other = wake(9).with(json!({ "organization_id": "other" }));
    let batch = [wake(1), wake(2), wake(3), other, wake(4)];
    let records = case.world.batch(&batch).await;
    let outcomes: Vec<String> = records.iter().map(brief).collect();
    let refused = "refused:capacity_exhausted";
    assert_eq!(outcomes, ["queued", "queued", refused, "queued", refused]);
    for record in [&records[2], &records[4]] {
        assert_eq!(
            (&record["overload"]["depth"], &record["overload"]["capacity"]),
            (&json!(2), &json!(2))
        );
    }
    assert_eq!(case.outside.run_count().await, 3);
}

async fn seed_004_an_overload_correlates_by_its_trace<S: Store>(mut case: Case<S>) {
    limit(&mut case.world, &[(Dimension::QueuedPlatform, 0)]);
    let mut event = wake(1);
    event.traceparent = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned());
    let record = case.world.send(event).await;
    assert_eq!(record["overload"]["correlation_id"], "0af7651916cd43dd8448eb211c80319c");
    let mut event = wake(2);
    event.traceparent = Some("nonsense".to_owned());
    let record = case.world.send(event).await;
    assert_eq!(record["overload"]["correlation_id"], record["wake_id"]);
}

async fn seed_004_what_is_accepted_is_never_dropped_to_make_room<S: Store>(mut case: Case<S>) {
    let accepted: Vec<_> = (1..=5).map(wake).collect();
    assert_eq!(case.world.outcomes(&accepted).await, ["queued"; 5]);
    let before = case.outside.runs().await;
    limit(&mut case.world, &[(Dimension::QueuedPlatform, 2)]);
    let record = case.world.send(wake(6)).await;
    assert_eq!(brief(&record), "refused:capacity_exhausted");
    assert_eq!(record["overload"]["depth"], 5, "over its ceiling, and all of it kept");
    assert_eq!(case.outside.runs().await, before);
}

async fn seed_004_a_full_queue_answers_every_wake_and_holds_nobody<S: Store>(mut case: Case<S>) {
    limit(&mut case.world, &[(Dimension::QueuedPlatform, 1)]);
    let first: Vec<_> = (1..=100).map(wake).collect();
    let second: Vec<_> = (101..=200).map(wake).collect();
    let mut outcomes = Vec::new();
    for batch in [first, second] {
        outcomes.extend(case.world.batch(&batch).await.iter().map(brief));
    }
    assert_eq!(outcomes[0], "queued");
    assert_eq!(outcomes[1..], vec!["refused:capacity_exhausted"; 199]);
    for cause in ["store", "audit", "broker"] {
        let held = format!("wakegate_lane_holds_total{{cause=\"{cause}\"}}");
        assert_eq!(case.world.metric(&held), 0, "{cause}");
    }
    assert_eq!(case.world.acknowledged().len(), 200);
}

async fn seed_003_a_ceiling_of_0_is_none<S: Store>(mut case: Case<S>) {
    for dimension in [
        Dimension::QueuedPlatform,
        Dimension::QueuedOrganization,
        Dimension::QueuedProject,
        Dimension::Waiting,
        Dimension::Intake,
    ] {
        limit(&mut case.world, &[(dimension, 0)]);
        let event = wake(1).with(json!({ "project_id": "p" }));
        let record = case.world.send(event).await;
        assert_eq!(brief(&record), "refused:capacity_exhausted", "{dimension:?}");
        let overload = &record["overload"];
        assert_eq!(
            (&overload["boundary"], &overload["capacity"]),
            (&json!(dimension.as_str()), &json!(0))
        );
        assert_eq!(overload.get("retry_after_seconds"), None, "no waiting helps");
    }
    assert_eq!(case.outside.run_count().await, 0);
}

async fn the_widest_boundary_that_is_full_is_named<S: Store>(mut case: Case<S>) {
    let of_project = |i, project: &str| wake(i).with(json!({ "project_id": project }));
    limit(&mut case.world, &[(Dimension::QueuedProject, 1)]);
    assert_eq!(brief(&case.world.send(of_project(1, "p")).await), "queued");
    let record = case.world.send(of_project(2, "p")).await;
    assert_eq!(record["overload"]["boundary"], "queued_runs.project");
    assert_eq!(brief(&case.world.send(of_project(3, "q")).await), "queued", "of another project");
    let theirs = of_project(4, "p").with(json!({ "organization_id": "other" }));
    assert_eq!(brief(&case.world.send(theirs).await), "queued", "a project is its organization's");
    limit(&mut case.world, &[(Dimension::QueuedProject, 1), (Dimension::QueuedOrganization, 2)]);
    let record = case.world.send(of_project(5, "p")).await;
    assert_eq!(record["overload"]["boundary"], "queued_runs.organization");
    let of = [Dimension::QueuedProject, Dimension::QueuedOrganization, Dimension::QueuedPlatform];
    limit(&mut case.world, &of.map(|dimension| (dimension, 1)));
    let record = case.world.send(of_project(6, "p")).await;
    assert_eq!(record["overload"]["boundary"], "queued_runs.platform");
    assert_eq!(record["overload"]["depth"], 3);
}

async fn a_run_without_a_project_meets_no_projects_ceiling<S: Store>(mut case: Case<S>) {
    limit(&mut case.world, &[(Dimension::QueuedProject, 0)]);
    assert_eq!(case.world.outcomes(&[wake(1), wake(2)]).await, ["queued"; 2]);
}

async fn room_that_is_made_is_taken<S: Store>(mut case: Case<S>) {
    limit(&mut case.world, &[(Dimension::QueuedOrganization, 1)]);
    for i in 0..3 {
        let outcomes = case.world.outcomes(&[wake(2 * i), wake(2 * i + 1)]).await;
        assert_eq!(outcomes, ["queued", "refused:capacity_exhausted"], "round {i}");
        case.outside.claim_all().await;
    }
    assert_eq!(case.outside.run_count().await, 3);
}

/// By how many left it in the last minute or two; where too few did, nothing is said.
async fn seed_004_a_queue_that_drains_says_when_to_try_again<S: Store>(mut case: Case<S>) {
    for dimension in [Dimension::QueuedPlatform, Dimension::QueuedOrganization] {
        case.outside.execute("DELETE FROM runs; DELETE FROM wake_keys").await;
        case.outside.execute("UPDATE queue_platform SET drained = 0, drained_before = 0").await;
        case.outside
            .execute("UPDATE queue_organizations SET drained = 0, drained_before = 0")
            .await;
        limit(&mut case.world, &[(dimension, 3)]);
        let batch: Vec<_> = (1..=4).map(wake).collect();
        let refused = case.world.batch(&batch).await.remove(3);
        assert_eq!(refused["overload"]["boundary"], dimension.as_str());
        assert_eq!(refused["overload"].get("retry_after_seconds"), None, "{refused}");
        case.outside.claim_all().await;
        let batch: Vec<_> = (5..=8).map(wake).collect();
        let refused = case.world.batch(&batch).await.remove(3);
        // Three in one to two minutes: the next in 20 to 40 seconds.
        let seconds = refused["overload"]["retry_after_seconds"].as_u64();
        assert!(seconds.is_some_and(|seconds| (20..=40).contains(&seconds)), "{refused}");
    }
}

async fn what_merges_or_deduplicates_never_meets_the_ceilings<S: Store>(mut case: Case<S>) {
    limit(&mut case.world, &[(Dimension::QueuedOrganization, 1), (Dimension::Intake, 1)]);
    let first = mutation(T0, "t1", "", "builder", json!(1));
    assert_eq!(brief(&case.world.send(first.clone()).await), "queued");
    let joins = mutation(T0 + SECOND, "t1", "", "builder", json!(2));
    let repeats = first.at(T0 + MINUTE);
    let aged = repeats.clone().at(T0 + 25 * 60 * MINUTE);
    assert_eq!(
        case.world.outcomes(&[joins, repeats, aged]).await,
        ["coalesced", "deduplicated:windowed", "deduplicated:durable"]
    );
    assert_eq!(brief(&case.world.send(wake(9)).await), "refused:capacity_exhausted", "it is full");
    assert_eq!(case.outside.run_count().await, 1);
}

/// From the record, whatever there is room for now.
async fn a_refusal_is_repeated_though_there_is_room_by_now<S: Store>(mut case: Case<S>) {
    limit(&mut case.world, &[(Dimension::QueuedOrganization, 1)]);
    assert_eq!(brief(&case.world.send(wake(1)).await), "queued");
    let delivery = case.world.stored(&[wake(2)]).remove(0);
    let refused = case.world.work(std::slice::from_ref(&delivery)).await.remove(0);
    assert_eq!(brief(&refused), "refused:capacity_exhausted");
    case.outside.claim_all().await;
    let again = case.world.work(std::slice::from_ref(&delivery)).await.remove(0);
    assert_eq!(again, refused);
    assert_eq!(case.outside.run_count().await, 1);
    assert_eq!(brief(&case.world.send(wake(3)).await), "queued", "there was room");
}

async fn posture_capacity_holds<S: Store>(mut case: Case<S>) {
    own_limits(&case.outside, "acme", &[("queued_runs_max", "0")]).await;
    case.outside.execute("ALTER TABLE organization_limits RENAME TO taken_away").await;
    let metrics = case.world.bench.metrics.clone();
    let outside = case.outside.clone();
    let (record, ()) = tokio::join!(case.world.send(wake(1)), async {
        let errors = "wakegate_gate_errors_total{gate=\"capacity\"}";
        until(|| series(&metrics, errors) >= 2).await;
        assert_eq!(outside.run_count().await, 0, "nothing is admitted that nobody could look at");
        outside.execute("ALTER TABLE taken_away RENAME TO organization_limits").await;
    });
    assert_eq!(brief(&record), "refused:capacity_exhausted", "held, and decided from fresh facts");
}

async fn without_ceilings_nobody_asks<S: Store>(mut case: Case<S>) {
    case.world.bench.options.ceilings = None;
    case.outside.execute("DROP TABLE organization_limits; DROP TABLE intake_slots").await;
    assert_eq!(case.world.outcomes(&[wake(1), wake(2)]).await, ["queued"; 2]);
}

/// In one batch and in the next: nothing is decided again for want of room, and what was let through
/// is part of the depth that the next one meets.
async fn in_shadow_what_has_no_room_is_let_through_and_takes_it<S: Store>(mut case: Case<S>) {
    limit(&mut case.world, &[(Dimension::QueuedOrganization, 1), (Dimension::Waiting, 0)]);
    case.world.bench.shadows = Shadows::of(&[GateName::Capacity]);
    let deliveries = case.world.stored(&[wake(1), wake(2)]);
    let mut records = case.world.work(&deliveries).await;
    records.push(case.world.send(wake(3)).await);
    for (record, depth) in records.iter().zip(0..) {
        assert_eq!(brief(record), "queued", "{record}");
        let would = &record["would_refuse"][0];
        assert_eq!(
            (&would["gate"], &would["reason"]),
            (&json!("capacity"), &json!("capacity_exhausted"))
        );
        let (boundary, depth) = match depth {
            // There is room in the queue, and yet none may wait.
            0 => ("waiting", 0),
            depth => ("queued_runs.organization", depth),
        };
        assert_eq!(would["overload"]["boundary"], boundary, "{would}");
        assert_eq!(would["overload"]["depth"], depth, "{would}");
        assert_eq!(would["overload"]["component"], "worker-of-a-test", "as a refusal says it");
    }
    assert_eq!(case.world.metric("wakegate_rooms_taken_total"), 0);
    assert_eq!(case.outside.number("SELECT count(*) FROM runs WHERE expires_at IS NULL").await, 3);
    assert_eq!(
        case.outside.number("SELECT CAST(sum(admitted) AS bigint) FROM intake_slots").await,
        3
    );
    assert_eq!(
        case.world
            .metric("wakegate_would_refuse_total{gate=\"capacity\",reason=\"capacity_exhausted\"}"),
        3
    );
}
