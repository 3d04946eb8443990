//! What a claim costs does not grow with the queue: pages that PostgreSQL looks at, steps that
//! SQLite's machine takes, with a hundred queued runs and with a hundred thousand of a thousand
//! organizations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::given::{World, at, insertion, literal, queued};
use crate::harness::outside::Outside;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, PgConnection, Row as _,
    SqliteConnection,
};

/// `runs` queued runs over so many organizations, of four projects each.
pub fn filling(outside: &Outside, runs: u32, organizations: u32) -> String {
    let (series, id) = match outside {
        Outside::Sqlite(_) => (
            format!(
                "WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < {runs}) "
            ),
            "printf('00000000-0000-0000-0000-%012d', i)",
        ),
        Outside::Postgres(_) => (
            format!("WITH s (i) AS (SELECT generate_series(1, {runs})) "),
            "('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid",
        ),
    };
    format!(
        "INSERT INTO runs (id, organization_id, project_id, agent_profile_id, reason, actor_type, \
         requested_at, expires_at) {series} SELECT {id}, 'o' || (i % {organizations}), \
         'p' || (i % 4), 'a', 'r', 'agent', {}, {} FROM s",
        literal(outside, at(0)),
        literal(outside, at(10_000)),
    )
}

/// A connection that plans as those of the store do.
async fn session(world: &World<wakegate::store::postgres::PostgresStore>) -> PgConnection {
    let options: sqlx::postgres::PgConnectOptions = world.url.parse().unwrap();
    let settings = ["enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin"];
    options
        .options(settings.map(|setting| (setting, "off")))
        .options([("plan_cache_mode", "force_generic_plan"), ("jit", "off")])
        .connect()
        .await
        .unwrap()
}

/// Pages looked at by a claim of so many runs, all that its triggers do included.
pub async fn pages(world: &World<wakegate::store::postgres::PostgresStore>, runs_max: u32) -> u64 {
    let mut connection = session(world).await;
    let mut seen = 0;
    // The first of a connection reads the catalogue too.
    for _ in 0..2 {
        let explain = format!(
            "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM queue_claim(
                 gen_random_uuid(), 'r', {runs_max}, NULL, {now}, {now}, 100000, 100000, 9)",
            now = literal(&world.outside, at(1)),
        );
        let row = sqlx::query(AssertSqlSafe(explain)).fetch_one(&mut connection).await.unwrap();
        let plan: serde_json::Value = row.get(0);
        let plan = &plan[0]["Plan"];
        assert_eq!(plan["Actual Rows"].as_f64(), Some(f64::from(runs_max)), "{plan}");
        seen = ["Shared Hit Blocks", "Shared Read Blocks"]
            .map(|of| plan[of].as_u64().unwrap())
            .iter()
            .sum();
    }
    connection.close().await.unwrap();
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_looks_at_as_many_pages_of_postgres_however_deep_the_queue() {
    let mut few = Vec::new();
    for (runs, organizations) in [(100, 10), (100_000, 1_000)] {
        let world = World::on_postgres().await;
        world.outside.execute(&filling(&world.outside, runs, organizations)).await;
        let seen = [pages(&world, 1).await, pages(&world, 5).await];
        if few.is_empty() {
            few = seen.to_vec();
            assert!(few[0] > 10, "they are counted: {few:?}");
            continue;
        }
        for (deep, few) in seen.iter().zip(&few) {
            // The indices are two levels higher.
            assert!(*deep <= few * 2 + 20, "{deep} pages, {few} of a short queue");
        }
        world.assert_counts("deep").await;
        let sql = "SELECT count(*) FROM queue_organizations";
        assert_eq!(world.outside.number(sql).await, 1_000);
    }
}

/// Steps of SQLite's machine for one claimed run, its triggers' included.
pub async fn steps(connection: &mut SqliteConnection) -> u64 {
    let counted = Arc::new(AtomicU64::new(0));
    let counting = Arc::clone(&counted);
    connection.lock_handle().await.unwrap().set_progress_handler(1, move || {
        counting.fetch_add(1, Ordering::Relaxed);
        true
    });
    let of: String =
        sqlx::query_scalar(include_str!("../../../src/store/sqlite/queue/next_organization.sql"))
            .bind(1_000)
            .fetch_one(&mut *connection)
            .await
            .unwrap();
    let run: String =
        sqlx::query_scalar(include_str!("../../../src/store/sqlite/queue/next_run.sql"))
            .bind(of)
            .fetch_one(&mut *connection)
            .await
            .unwrap();
    let claimed = sqlx::query(include_str!("../../../src/store/sqlite/queue/claim_head.sql"))
        .bind(run)
        .bind(at(1).micros())
        .bind(at(2).micros())
        .bind("r")
        .bind(uuid::Uuid::from_u128(1).hyphenated())
        .fetch_all(&mut *connection)
        .await
        .unwrap();
    assert_eq!(claimed.len(), 1);
    connection.lock_handle().await.unwrap().remove_progress_handler();
    counted.load(Ordering::Relaxed)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_takes_as_many_steps_of_sqlite_however_deep_the_queue() {
    let mut few = 0;
    for (runs, organizations) in [(100, 10), (100_000, 1_000)] {
        let world = World::on_sqlite().await;
        world.outside.execute(&filling(&world.outside, runs, organizations)).await;
        let options: SqliteConnectOptions = world.url.parse().unwrap();
        let mut connection = options.connect().await.unwrap();
        let seen = steps(&mut connection).await.max(steps(&mut connection).await);
        if few == 0 {
            few = seen;
            assert!(few > 50, "they are counted: {few}");
        } else {
            assert!(seen <= few + few / 4, "{seen} steps, {few} of a short queue");
        }
    }
}

/// A session plans once, and an empty queue may be what it plans for: a plan that walks all of nothing
/// would walk all projects later, for each run.
#[tokio::test(flavor = "multi_thread")]
async fn runs_are_looked_up_alone_also_where_the_queue_was_empty_when_that_was_planned() {
    let world = World::on_postgres().await;
    world.outside.execute("VACUUM ANALYZE").await;
    let mut connection = session(&world).await;
    let insert = async |connection: &mut PgConnection, number: u128| {
        let sql = AssertSqlSafe(insertion(&world.outside, &[queued(number)]));
        connection.execute(sqlx::raw_sql(sql)).await.unwrap();
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE").await.unwrap();
    };
    let claim = async |connection: &mut PgConnection| {
        let now = literal(&world.outside, at(1));
        let sql = format!(
            "SELECT * FROM queue_claim(gen_random_uuid(), 'r', 1, NULL, {now}, {now}, 100000, 100000, 9)"
        );
        let claimed = connection.fetch_all(sqlx::raw_sql(AssertSqlSafe(sql))).await.unwrap();
        assert_eq!(claimed.len(), 1);
    };
    insert(&mut connection, 1_000_001).await;
    claim(&mut connection).await;
    world.outside.execute(&filling(&world.outside, 1_000, 1_000)).await;
    for (what, most) in [("two arrivals", 16), ("a claim", 32)] {
        let mut transaction = connection.begin().await.unwrap();
        if what == "a claim" {
            claim(&mut transaction).await;
        } else {
            insert(&mut transaction, 1_000_002).await;
            insert(&mut transaction, 1_000_003).await;
        }
        let fetched: i64 = sqlx::query_scalar(
            "SELECT sum(idx_tup_fetch + seq_tup_read)::bigint FROM pg_stat_xact_user_tables
             WHERE relname IN ('queue_projects', 'queue_organizations', 'runs')",
        )
        .fetch_one(&mut *transaction)
        .await
        .unwrap();
        assert!((4..=most).contains(&fetched), "{fetched} rows for {what}");
        transaction.commit().await.unwrap();
    }
    world.assert_counts("after all").await;
}
