//! While somebody looks back for long (a backup, a report) no row that the queue has changed since can
//! be cleared away. What that costs a claim is bounded, and over with whoever looked back.

use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use wakegate::store::postgres::PostgresStore;
use wakegate::store::queue::{QueueStore, RunEnd};

use super::cost::{filling, pages, steps};
use super::given::{World, asking, at, finishing, held};

const RUNS: u32 = 2_000;
/// Runs that are claimed, started and ended while somebody looks back.
const SINCE: u32 = 150;
/// Organizations, and the pages of PostgreSQL more that a claim looks at for each of those runs: where
/// all are of one organization, three versions of its own rows, and of its project's.
const MORE: [(u32, u64); 2] = [(1_000, 2), (1, 4)];

const BACK: &str = "SELECT count(*) FROM runs WHERE status = 'queued'";

async fn work<S: QueueStore>(world: &World<S>, claim: u128, runs: u32) {
    for nth in 0..u128::from(runs) {
        let given = world.claim(&asking(claim + nth, 1, 1)).await;
        let by = held(&given[0]);
        world.store.start(&by, at(100), at(2)).await.unwrap();
        world.store.finish(&finishing(by, RunEnd::Succeeded, 3)).await.unwrap();
    }
}

/// What was claimed to be measured is over.
async fn end_all<S>(world: &World<S>) {
    world.outside.execute("UPDATE runs SET status = 'failed' WHERE status = 'claimed'").await;
}

async fn pages_before_beside_and_after(organizations: u32) -> [u64; 3] {
    let world: World<PostgresStore> = World::on_postgres().await;
    world.outside.execute(&filling(&world.outside, RUNS, organizations)).await;
    let before = pages(&world, 1).await;
    end_all(&world).await;
    let options: PgConnectOptions = world.url.parse().unwrap();
    let mut reader = options.connect().await.unwrap();
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ";
    sqlx::raw_sql(AssertSqlSafe(begin)).execute(&mut reader).await.unwrap();
    let seen: i64 = sqlx::query_scalar(BACK).fetch_one(&mut reader).await.unwrap();
    work(&world, 1_000, SINCE).await;
    let beside = pages(&world, 1).await;
    end_all(&world).await;
    let again: i64 = sqlx::query_scalar(BACK).fetch_one(&mut reader).await.unwrap();
    assert_eq!(seen, again, "it looks back");
    reader.close().await.unwrap();
    // Whoever comes by clears away: no vacuum is waited for.
    work(&world, 10_000, 3).await;
    let after = pages(&world, 1).await;
    world.assert_counts("after all").await;
    [before, beside, after]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_reader_makes_a_claim_dearer_by_few_pages_a_run_and_its_end_makes_it_cheap_again() {
    for (organizations, more) in MORE {
        let [before, beside, after] = pages_before_beside_and_after(organizations).await;
        let told = format!("{organizations}: {before}, then {beside}, then {after} pages");
        assert!(beside <= before + more * u64::from(SINCE), "{told}");
        assert!(after <= before + before / 2 + 20, "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_reader_adds_no_step_to_a_claim_on_sqlite() {
    for organizations in [1_000, 1] {
        let world = World::on_sqlite().await;
        world.outside.execute(&filling(&world.outside, RUNS, organizations)).await;
        let options: SqliteConnectOptions = world.url.parse().unwrap();
        let mut connection = options.connect().await.unwrap();
        let before = steps(&mut connection).await.max(steps(&mut connection).await);
        end_all(&world).await;
        let mut reader = options.connect().await.unwrap();
        sqlx::raw_sql(AssertSqlSafe("BEGIN")).execute(&mut reader).await.unwrap();
        let seen: i64 = sqlx::query_scalar(BACK).fetch_one(&mut reader).await.unwrap();
        work(&world, 1_000, SINCE).await;
        let beside = steps(&mut connection).await.max(steps(&mut connection).await);
        let again: i64 = sqlx::query_scalar(BACK).fetch_one(&mut reader).await.unwrap();
        assert_eq!(seen, again, "it looks back");
        assert!(beside <= before + before / 4, "{organizations}: {before}, then {beside} steps");
    }
}
