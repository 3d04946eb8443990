//! Many lanes, and many workers, on one queue: its ceilings hold to the run.

use serde_json::{Value, json};
use tokio::task::JoinSet;
use wakegate::admission::limits::{Ceilings, Dimension};
use wakegate::store::postgres::PostgresStore;
use wakegate::store::{Store, StoreOptions};

use super::{ceilings, on_both_databases, own_limits};
use crate::harness::case::Case;
use crate::harness::outside::Outside;
use crate::harness::postgres;
use crate::harness::world::{Published, SECOND, T0, World, brief, mutation};

on_both_databases!(
    seed_004_the_capacity_is_the_same_with_1_2_and_8_lanes,
    every_layer_is_exact_while_lanes_race,
    the_intake_rate_is_exact_while_lanes_race,
);

const REFUSED: &str = "refused:capacity_exhausted";

/// Assignments of tasks of their own, all in one minute.
fn burst(lane: u32, round: i64, wakes: i64) -> Vec<Published> {
    (0..wakes)
        .map(|i| {
            let (task, key) = (format!("t-{lane}-{round}-{i}"), json!(round * 1_000 + i));
            mutation(T0 + round * SECOND, &task, "", "builder", key)
        })
        .collect()
}

/// Works each lane's bursts, all lanes at once, and returns every record.
async fn race<S: Store>(
    stores: &[S],
    lanes: std::ops::Range<u32>,
    ceilings: Ceilings,
    bursts: impl Fn(u32) -> Vec<Vec<Published>>,
) -> Vec<Value> {
    let mut racing = JoinSet::new();
    for (lane, store) in lanes.zip(stores.iter().cycle()) {
        let mut world = World::on_lane(store.clone(), lane).await;
        world.bench.options.ceilings = Some(ceilings);
        let bursts = bursts(lane);
        racing.spawn(async move {
            let mut records = Vec::new();
            for burst in bursts {
                records.extend(world.batch(&burst).await);
            }
            let holds = world.metric("wakegate_lane_holds_total{cause=\"store\"}");
            assert_eq!(holds, 0, "who loses the room decides again at once, and holds nobody");
            records
        });
    }
    racing.join_all().await.into_iter().flatten().collect()
}

fn admitted(records: &[Value]) -> usize {
    let queued = records.iter().filter(|record| brief(record) == "queued").count();
    let refused = records.iter().filter(|record| brief(record) == REFUSED).count();
    assert_eq!(queued + refused, records.len(), "every wake has its answer");
    queued
}

async fn seed_004_the_capacity_is_the_same_with_1_2_and_8_lanes<S: Store>(case: Case<S>) {
    let of = ceilings(&[(Dimension::QueuedPlatform, 2)]);
    let mut first = 0;
    for lanes in [1, 2, 8] {
        let stores = [case.world.bench.store.clone()];
        let bursts = |lane| (0..3).map(|round| burst(lane, round, 10)).collect();
        let records = race(&stores, first..first + lanes, of, bursts).await;
        assert_eq!(admitted(&records), 2, "with {lanes} lanes");
        let refused = records.iter().filter(|record| brief(record) == REFUSED);
        for record in refused {
            let overload = &record["overload"];
            assert_eq!((&overload["depth"], &overload["capacity"]), (&json!(2), &json!(2)));
        }
        assert_eq!(case.outside.run_count().await, 2, "with {lanes} lanes");
        case.outside.execute("DELETE FROM runs").await;
        first += lanes;
    }
}

async fn every_layer_is_exact_while_lanes_race<S: Store>(case: Case<S>) {
    own_limits(&case.outside, "lowered", &[("queued_runs_max", "3")]).await;
    let of = ceilings(&[
        (Dimension::QueuedPlatform, 20),
        (Dimension::QueuedOrganization, 9),
        (Dimension::QueuedProject, 4),
    ]);
    let bursts = |lane| {
        let organizations = ["acme", "lowered", "other", "third"];
        let in_turn = |(i, event): (usize, Published)| {
            event.with(json!({
                "organization_id": organizations[i % 4],
                "project_id": if i % 8 < 4 { json!("p") } else { Value::Null },
            }))
        };
        (0..4)
            .map(|round| burst(lane, round, 8).into_iter().enumerate().map(in_turn).collect())
            .collect()
    };
    let stores = [case.world.bench.store.clone()];
    let records = race(&stores, 0..6, of, bursts).await;
    assert_eq!(admitted(&records), 20, "the platform is full");
    for (whose, most) in [
        ("organization_id = 'lowered'", 3),
        ("organization_id = 'acme'", 9),
        ("organization_id = 'acme' AND project_id = 'p'", 4),
        ("organization_id = 'other'", 9),
        ("organization_id = 'other' AND project_id = 'p'", 4),
    ] {
        let runs = case.outside.number(&format!("SELECT count(*) FROM runs WHERE {whose}")).await;
        assert!(runs <= most, "{runs} of {whose}");
    }
    assert_eq!(case.outside.number("SELECT queued FROM queue_platform").await, 20);
}

async fn the_intake_rate_is_exact_while_lanes_race<S: Store>(case: Case<S>) {
    let of = ceilings(&[(Dimension::Intake, 7)]);
    let stores = [case.world.bench.store.clone()];
    let bursts = |lane| (0..4).map(|round| burst(lane, round, 4)).collect();
    let records = race(&stores, 0..6, of, bursts).await;
    assert_eq!(admitted(&records), 7);
    assert_eq!(
        case.outside.number("SELECT CAST(sum(admitted) AS bigint) FROM intake_slots").await,
        7
    );
}

/// Two workers, each with connections of its own, four lanes each; what is full is emptied and
/// filled again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seed_004_two_workers_at_once_never_exceed_a_ceiling_by_one_on_postgres() {
    let database = postgres::database().await;
    let outside = Outside::Postgres(database.pool());
    let open = || PostgresStore::connect(&database.url(), &StoreOptions::default()).unwrap();
    let stores = [open(), open()];
    let of = ceilings(&[(Dimension::QueuedOrganization, 5)]);
    for round in 0..5 {
        let first = 8 * round;
        let bursts = |lane| (0..3).map(|turn| burst(lane, turn, 6)).collect();
        let records = race(&stores, first..first + 8, of, bursts).await;
        assert_eq!(admitted(&records), 5, "round {round}");
        assert_eq!(outside.number("SELECT count(*) FROM runs WHERE status = 'queued'").await, 5);
        outside.claim_all().await;
    }
}
