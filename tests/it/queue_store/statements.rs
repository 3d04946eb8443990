//! Each statement is valid on its database and looks things up, whatever the tables hold.

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Row as _};

use super::given::{World, queued};
use crate::harness::statements::sqlite_plan;
use crate::harness::{postgres, sqlite};
use crate::store_contract::statements::SQLITE_ENDED;

/// Every `.sql` file of a dialect's queue.
fn statements(dialect: &str) -> Vec<(String, String)> {
    let found = crate::harness::statements::statements(dialect, "queue");
    assert!(found.len() >= 14, "{found:?}");
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn no_postgres_plan_is_a_scan_whatever_the_table_holds() {
    let world = World::on_postgres().await;
    let settings = ["enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin"];
    let options: PgConnectOptions = world.url.parse().unwrap();
    for state in ["fresh", "VACUUM ANALYZE", "filled", "ANALYZE"] {
        match state {
            "fresh" => {}
            "filled" => {
                let runs: Vec<_> = (0..3_000).map(|nth| queued(1 + nth).expiring(5)).collect();
                world.insert(&runs).await;
            }
            change => world.outside.execute(change).await,
        }
        let mut connection = options
            .clone()
            .options(settings.map(|setting| (setting, "off")))
            .options([("plan_cache_mode", "force_generic_plan")])
            .connect()
            .await
            .unwrap();
        for (name, sql) in statements("postgres") {
            let arguments =
                (1..30).take_while(|number| sql.contains(&format!("${number}"))).count();
            let prepare = format!("PREPARE {name} AS {sql}");
            sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut connection).await.unwrap();
            let nulls = vec!["NULL"; arguments].join(", ");
            let explain = format!("EXPLAIN (COSTS OFF) EXECUTE {name} ({nulls})");
            let rows =
                sqlx::raw_sql(AssertSqlSafe(explain)).fetch_all(&mut connection).await.unwrap();
            let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            let plan = plan.join("\n");
            for costly in ["Seq Scan", "Sort", "Bitmap", "Hash", "Merge Join"] {
                assert!(!plan.contains(costly), "{state}: {name}: {costly} in\n{plan}");
            }
            let scans =
                plan.matches("Index Scan").count() + plan.matches("Index Only Scan").count();
            assert_eq!(plan.matches("Index Cond").count(), scans, "{state}: {name}:\n{plan}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_sqlite_plan_scans_a_table() {
    let (_directory, url) = sqlite::database().await;
    for (is_empty, change) in [(true, "SELECT 1"), (false, SQLITE_ENDED)] {
        let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
        sqlx::raw_sql(change).execute(&pool).await.unwrap();
        // What is open already does not know of new statistics.
        pool.close().await;
        let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
        for (name, sql) in statements("sqlite") {
            let steps = sqlite_plan(&pool, &sql).await.unwrap_or_else(|e| panic!("{name}: {e}"));
            for step in steps {
                let harmless = ["SCAN w", "SCAN CONSTANT ROW"].contains(&step.as_str());
                assert!(!step.starts_with("SCAN") || harmless, "{name}: {step}");
                // With statistics the leases that lapsed may be sorted, of both states together.
                assert!(!is_empty || !step.contains("TEMP B-TREE"), "{name}: {step}");
            }
        }
    }
}

/// What triggers and `queue_claim` do has no plan that could be asked for: their functions name no
/// table that a role which may only write runs could put in the way.
#[tokio::test(flavor = "multi_thread")]
async fn functions_of_the_queue_run_as_the_owner_and_claims_are_granted() {
    let database = postgres::database().await;
    database
        .execute(
            "CREATE ROLE queue_outsider LOGIN;
             GRANT SELECT, INSERT, UPDATE, DELETE ON runs TO queue_outsider",
        )
        .await;
    let url = database.url().replace("postgres://postgres@", "postgres://queue_outsider@");
    let outsider = sqlx::PgPool::connect(&url).await.unwrap();
    let sql = super::given::insertion(
        &crate::harness::outside::Outside::Postgres(outsider.clone()),
        &[queued(1), queued(2)],
    );
    for sql in [
        "CREATE TEMP TABLE queue_platform (singleton boolean, queued int, active int, served int)",
        &sql,
        "UPDATE runs SET status = 'claimed'",
        "DELETE FROM runs WHERE id = '00000000-0000-0000-0000-000000000001'",
    ] {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&outsider).await.unwrap();
    }
    let outside = crate::harness::outside::Outside::Postgres(database.pool());
    super::given::assert_counts(&outside, "after an outsider").await;
    assert_eq!(outside.number("SELECT active FROM queue_platform").await, 1);
    for sql in [
        "SELECT * FROM queue_claim(gen_random_uuid(), 'r', 1, NULL, now(), now(), 9, 9, 9)",
        "UPDATE public.queue_platform SET active = 0",
        "SELECT queue_lock() FROM public.queue_platform",
    ] {
        let refused = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&outsider).await.expect_err(sql);
        let code = refused.as_database_error().and_then(|error| error.code().map(String::from));
        assert_eq!(code.as_deref(), Some("42501"), "{sql}: {refused}");
    }
    outsider.close().await;
    database.execute("DROP OWNED BY queue_outsider; DROP ROLE queue_outsider").await;
}
