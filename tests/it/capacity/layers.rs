//! The layers on real rows: what an organization sets, and the dimensions that are no queue.

use serde_json::json;
use wakegate::admission::limits::Dimension;
use wakegate::store::Store;

use super::{limit, on_both_databases, own_limits, wake};
use crate::harness::case::Case;
use crate::harness::outside::Outside;
use crate::harness::world::{SECOND, T0, brief};

on_both_databases!(
    seed_003_an_organization_may_lower_and_never_raise,
    seed_003_what_an_organization_does_not_say_is_the_platforms,
    seed_003_an_organizations_0_is_none,
    limits_of_one_organization_are_no_others,
    a_limit_that_is_lowered_holds_from_the_next_batch_on,
    a_run_expires_after_the_waiting_time_in_force,
    an_event_over_the_platforms_size_is_rejected_and_over_the_organizations_refused,
);

async fn seed_003_an_organization_may_lower_and_never_raise<S: Store>(mut case: Case<S>) {
    limit(&mut case.world, &[(Dimension::QueuedOrganization, 2)]);
    for (own, capacity, layer) in
        [("1", 1, "organization"), ("2", 2, "platform"), ("3", 2, "platform")]
    {
        case.outside.execute("DELETE FROM runs; DELETE FROM wake_keys").await;
        own_limits(&case.outside, "acme", &[("queued_runs_max", own)]).await;
        let outcomes = case.world.outcomes(&(1..=capacity).map(wake).collect::<Vec<_>>()).await;
        assert!(outcomes.iter().all(|outcome| outcome == "queued"), "{own}: {outcomes:?}");
        let record = case.world.send(wake(9)).await;
        let overload = &record["overload"];
        assert_eq!(overload["capacity"], capacity, "{own}: {record}");
        assert_eq!(overload["layer"], layer, "{own}");
    }
}

async fn seed_003_what_an_organization_does_not_say_is_the_platforms<S: Store>(mut case: Case<S>) {
    limit(&mut case.world, &[(Dimension::QueuedOrganization, 1)]);
    own_limits(&case.outside, "acme", &[("event_bytes_max", "100000")]).await;
    assert_eq!(
        case.world.outcomes(&[wake(1), wake(2)]).await,
        ["queued", "refused:capacity_exhausted"],
        "absent is the platform's, never unlimited"
    );
}

async fn seed_003_an_organizations_0_is_none<S: Store>(mut case: Case<S>) {
    own_limits(&case.outside, "acme", &[("queued_runs_max", "0")]).await;
    let record = case.world.send(wake(1)).await;
    assert_eq!(brief(&record), "refused:capacity_exhausted");
    assert_eq!(record["overload"]["layer"], "organization");
    assert_eq!(record["overload"]["capacity"], 0);
}

async fn limits_of_one_organization_are_no_others<S: Store>(mut case: Case<S>) {
    own_limits(&case.outside, "acme", &[("queued_runs_max", "0")]).await;
    let theirs = wake(1).with(json!({ "organization_id": "other" }));
    let nobodys = wake(2).with(json!({ "organization_id": "" }));
    assert_eq!(
        case.world.outcomes(&[wake(3), theirs, nobodys]).await,
        ["refused:capacity_exhausted", "queued", "queued"]
    );
}

async fn a_limit_that_is_lowered_holds_from_the_next_batch_on<S: Store>(mut case: Case<S>) {
    assert_eq!(case.world.outcomes(&[wake(1), wake(2)]).await, ["queued"; 2]);
    own_limits(&case.outside, "acme", &[("queued_runs_max", "1")]).await;
    assert_eq!(brief(&case.world.send(wake(3)).await), "refused:capacity_exhausted");
    own_limits(&case.outside, "acme", &[("queued_runs_max", "3")]).await;
    assert_eq!(
        case.world.outcomes(&[wake(4), wake(5)]).await,
        ["queued", "refused:capacity_exhausted"]
    );
}

/// From the decision on, not from the request: a backlog is not admitted to expire at once.
async fn a_run_expires_after_the_waiting_time_in_force<S: Store>(mut case: Case<S>) {
    limit(&mut case.world, &[(Dimension::Waiting, 60)]);
    own_limits(&case.outside, "other", &[("waiting_seconds_max", "10")]).await;
    own_limits(&case.outside, "third", &[("waiting_seconds_max", "90")]).await;
    for organization in ["acme", "other", "third"] {
        let event =
            wake(1).at(T0 - 6_000 * SECOND).with(json!({ "organization_id": organization }));
        assert_eq!(brief(&case.world.send(event).await), "queued");
    }
    let micros = match &case.outside {
        Outside::Sqlite(_) => "expires_at",
        Outside::Postgres(_) => "(extract(epoch FROM expires_at) * 1000000)::bigint",
    };
    for (organization, seconds) in [("acme", 60), ("other", 10), ("third", 60)] {
        let expires_at = case
            .outside
            .number(&format!("SELECT {micros} FROM runs WHERE organization_id = '{organization}'"))
            .await;
        // The worker's clock stands still at T0 here.
        assert_eq!(expires_at, T0 + seconds * SECOND, "{organization}");
    }
}

async fn an_event_over_the_platforms_size_is_rejected_and_over_the_organizations_refused<
    S: Store,
>(
    mut case: Case<S>,
) {
    let event = wake(1);
    let bytes = u32::try_from(event.body.len()).unwrap();
    limit(&mut case.world, &[(Dimension::EventBytes, bytes)]);
    own_limits(&case.outside, "acme", &[("event_bytes_max", &(bytes - 1).to_string())]).await;
    let record = case.world.send(event.clone()).await;
    assert_eq!(brief(&record), "refused:capacity_exhausted");
    let overload = &record["overload"];
    assert_eq!(overload["boundary"], "event_bytes");
    assert_eq!((&overload["depth"], &overload["capacity"]), (&json!(bytes), &json!(bytes - 1)));
    own_limits(&case.outside, "acme", &[("event_bytes_max", &bytes.to_string())]).await;
    assert_eq!(brief(&case.world.send(wake(2)).await), "queued", "to the byte");
    limit(&mut case.world, &[(Dimension::EventBytes, bytes - 1)]);
    let record = case.world.send(wake(3)).await;
    assert_eq!(brief(&record), "rejected:too_large", "at the door, whoever it is of");
    assert!(record["fault"].as_str().unwrap().contains(&(bytes - 1).to_string()), "{record}");
}
