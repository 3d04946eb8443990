//! The intake rate: so many runs a minute of one producer's events in one organization.

use serde_json::json;
use wakegate::admission::limits::Dimension;
use wakegate::store::Store;

use super::{limit, on_both_databases, own_limits};
use crate::harness::case::Case;
use crate::harness::world::{MINUTE, Published, SECOND, T0, World, brief, mutation};

const REFUSED: &str = "refused:capacity_exhausted";

on_both_databases!(
    seed_003_so_many_a_minute_and_the_next_is_told_when_it_fits,
    seed_003_producers_and_organizations_have_rates_of_their_own,
    seed_003_an_organization_lowers_its_rate,
    no_minute_is_exceeded_in_whatever_order_lanes_come_to_it,
    a_backlog_is_judged_by_its_own_minutes,
    what_is_delivered_again_is_counted_once,
    a_refused_wake_does_not_count,
);

/// An assignment of a task of its own at this second.
fn at(second: i64) -> Published {
    mutation(T0 + second * SECOND, &format!("at-{second}"), "", "builder", json!(second))
}

async fn seed_003_so_many_a_minute_and_the_next_is_told_when_it_fits<S: Store>(mut case: Case<S>) {
    limit(&mut case.world, &[(Dimension::Intake, 3)]);
    assert_eq!(case.world.outcomes(&[at(0), at(10), at(11)]).await, ["queued"; 3]);
    let record = case.world.send(at(12)).await;
    assert_eq!(brief(&record), REFUSED);
    let overload = &record["overload"];
    assert_eq!(overload["boundary"], "intake");
    assert_eq!(overload["reason"], "rate_exceeded");
    assert_eq!((&overload["depth"], &overload["capacity"]), (&json!(3), &json!(3)));
    // The first slot leaves with the second 60, and the worker's clock stands still at 0.
    assert_eq!(overload["retry_after_seconds"], 60);
    assert_eq!(
        case.world.outcomes(&[at(59), at(60), at(61), at(69), at(70), at(71), at(72)]).await,
        [REFUSED, "queued", REFUSED, REFUSED, "queued", "queued", REFUSED]
    );
}

async fn seed_003_producers_and_organizations_have_rates_of_their_own<S: Store>(mut case: Case<S>) {
    limit(&mut case.world, &[(Dimension::Intake, 1)]);
    let theirs = at(2).with(json!({ "organization_id": "other" }));
    let events = [
        at(0),
        at(1),
        theirs,
        at(3).by_producer("onboarding"),
        at(4).by_producer("onboarding"),
        at(5).by_producer("nobody-knows"),
        // Tokens that nobody knows share one rate: none gets around it by a new name.
        at(6).by_producer("nor-this"),
    ];
    assert_eq!(
        case.world.outcomes(&events).await,
        ["queued", REFUSED, "queued", "queued", REFUSED, "queued", REFUSED]
    );
}

async fn seed_003_an_organization_lowers_its_rate<S: Store>(mut case: Case<S>) {
    limit(&mut case.world, &[(Dimension::Intake, 5)]);
    own_limits(&case.outside, "acme", &[("intake_events_per_minute_max", "1")]).await;
    assert_eq!(brief(&case.world.send(at(0)).await), "queued");
    let record = case.world.send(at(1)).await;
    assert_eq!(record["overload"]["layer"], "organization");
    assert_eq!(record["overload"]["capacity"], 1);
}

/// Another lane may be ahead: what it has admitted after a wake's instant shares minutes with it too.
async fn no_minute_is_exceeded_in_whatever_order_lanes_come_to_it<S: Store>(mut case: Case<S>) {
    limit(&mut case.world, &[(Dimension::Intake, 2)]);
    let mut behind = World::on_lane(case.world.bench.store.clone(), 1).await;
    limit(&mut behind, &[(Dimension::Intake, 2)]);
    assert_eq!(case.world.outcomes(&[at(100), at(101)]).await, ["queued"; 2]);
    assert_eq!(
        behind.outcomes(&[at(30), at(49), at(50), at(110), at(159), at(160)]).await,
        // From 41 on a minute of six slots holds both of the others.
        ["queued", "queued", REFUSED, REFUSED, REFUSED, "queued"]
    );
}

async fn a_backlog_is_judged_by_its_own_minutes<S: Store>(mut case: Case<S>) {
    limit(&mut case.world, &[(Dimension::Intake, 2)]);
    // An hour, five wakes a minute, all decided in one batch.
    let backlog: Vec<Published> = (0..300).map(|i| at(i * 12)).collect();
    let mut admitted = Vec::new();
    for (i, record) in (0..).zip(case.world.batch(&backlog).await) {
        if brief(&record) == "queued" {
            admitted.push(i * 12 / 10);
        }
    }
    for start in 0..360 {
        let within = admitted.iter().filter(|slot| (start..start + 6).contains(*slot)).count();
        assert!(within <= 2, "{within} in the minute from slot {start}");
    }
    assert!(admitted.len() >= 100, "about two a minute over an hour: {}", admitted.len());
}

async fn what_is_delivered_again_is_counted_once<S: Store>(mut case: Case<S>) {
    limit(&mut case.world, &[(Dimension::Intake, 2)]);
    let delivery = case.world.stored(&[at(0)]).remove(0);
    for _ in 0..4 {
        let record = case.world.work(std::slice::from_ref(&delivery)).await.remove(0);
        assert_eq!(brief(&record), "queued");
    }
    assert_eq!(case.world.outcomes(&[at(1), at(2)]).await, ["queued", REFUSED]);
    assert_eq!(
        case.outside.number("SELECT CAST(sum(admitted) AS bigint) FROM intake_slots").await,
        2
    );
}

async fn a_refused_wake_does_not_count<S: Store>(mut case: Case<S>) {
    limit(&mut case.world, &[(Dimension::Intake, 1)]);
    assert_eq!(brief(&case.world.send(at(0)).await), "queued");
    for second in 1..50 {
        assert_eq!(brief(&case.world.send(at(second)).await), REFUSED);
    }
    assert_eq!(
        case.outside.number("SELECT CAST(sum(admitted) AS bigint) FROM intake_slots").await,
        1
    );
    let fits = mutation(T0 + MINUTE, "fits", "", "builder", json!(1));
    assert_eq!(brief(&case.world.send(fits).await), "queued");
}
