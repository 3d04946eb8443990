//! The statements themselves: each is valid on its database, and no plan is a scan.

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _, Row as _, SqlSafeStr as _};
use std::collections::BTreeMap;

use super::subject::{OnPostgres, OnSqlite, Subject as _};
use crate::harness::outside::Outside;
use crate::harness::statements::sqlite_plan;

/// Every `.sql` file of a dialect, and what is put together of some.
fn statements(dialect: &str) -> Vec<(String, String)> {
    let mut found = crate::harness::statements::statements(dialect, "");
    assert!(found.len() >= 19, "{found:?}");
    if dialect == "postgres" {
        found.push(("facts".to_owned(), wakegate::store::postgres::facts_statement().to_owned()));
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn every_postgres_statement_is_valid() {
    let subject = OnPostgres::open().await;
    let mut connection = subject.database.pool().acquire().await.unwrap();
    for (name, sql) in statements("postgres") {
        let prepared = connection.prepare(AssertSqlSafe(sql).into_sql_str()).await;
        assert!(prepared.is_ok(), "{name}: {:?}", prepared.err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sqlite_statement_is_valid() {
    let subject = OnSqlite::open().await;
    let Outside::Sqlite(pool) = &subject.outside else { unreachable!("opened on SQLite") };
    for (name, sql) in statements("sqlite") {
        let prepared = sqlite_plan(pool, &sql).await;
        assert!(prepared.is_ok(), "{name}: {:?}", prepared.err());
    }
}

/// In every state that a table can be in. Statistics that say that a table is empty, which it will
/// not stay, make walking all of its index look like a bargain, with what is asked for inside; a
/// table that grew since has none, or old ones.
#[tokio::test(flavor = "multi_thread")]
async fn every_postgres_plan_is_the_same_whatever_the_table_holds() {
    let subject = OnPostgres::open().await;
    let fresh = plans(&subject).await;
    let empty = OnPostgres::open().await;
    empty.database.execute("VACUUM ANALYZE").await;
    assert_eq!(plans(&empty).await, fresh, "analysed while empty");
    let of_an_empty_table = statistics(&empty).await;
    for (state, change) in [
        ("200,000 rows, never analysed", FILL),
        ("200,000 rows, statistics of an empty table", &of_an_empty_table),
        ("200,000 rows, analysed", "ANALYZE"),
        ("200,000 rows, all of them ended, analysed", ENDED),
    ] {
        subject.database.execute(change).await;
        let now = plans(&subject).await;
        for (name, plan) in &fresh {
            assert_eq!(now[name], *plan, "{name}, {state}");
        }
    }
}

/// What sets the statistics of another database with this schema to this one's, whose tables are empty,
/// so that it need not be filled once more for them: of an empty table these numbers are all there is.
async fn statistics(empty: &OnPostgres) -> String {
    let pool = empty.database.pool();
    let columns = "SELECT count(*) FROM pg_statistic WHERE starelid IN ('runs'::regclass,
         'wake_keys'::regclass, 'merged_wakes'::regclass, 'refused_wakes'::regclass,
         'shadowed_wakes'::regclass)";
    let columns: i64 = sqlx::query_scalar(columns).fetch_one(&pool).await.unwrap();
    assert_eq!(columns, 0, "an empty table has no statistics of its columns");
    let set =
        "SELECT format('UPDATE pg_class SET relpages = %s, reltuples = %s, relallvisible = %s '
                'WHERE oid = %L::regclass;', relpages, reltuples, relallvisible, oid::regclass)
         FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')";
    let set: Vec<String> = sqlx::query_scalar(set).fetch_all(&pool).await.unwrap();
    assert!(set.len() > 20, "tables and indices: {set:?}");
    let is_set = "DO $$ BEGIN
            ASSERT (SELECT reltuples = 0 FROM pg_class WHERE oid = 'runs'::regclass), 'empty, they say';
            ASSERT (SELECT count(*) = 200000 FROM runs), 'and it is not';
        END $$";
    set.concat() + is_set
}

/// 200,000 rows in each table that grows, without autovacuum's help.
const FILL: &str = "
    ALTER TABLE runs SET (autovacuum_enabled = off);
    ALTER TABLE wake_keys SET (autovacuum_enabled = off);
    ALTER TABLE merged_wakes SET (autovacuum_enabled = off);
    ALTER TABLE refused_wakes SET (autovacuum_enabled = off);
    ALTER TABLE shadowed_wakes SET (autovacuum_enabled = off);
    INSERT INTO runs (id, organization_id, agent_profile_id, reason, idempotency_key, task_id,
                      actor_type)
    SELECT gen_random_uuid(), 'o' || i % 50, 'a' || i % 500, 'task_assigned', 'k' || i,
           CASE WHEN i % 10 > 0 THEN 't' || i / 4 END, 'agent'
    FROM generate_series(1, 200000) AS s (i);
    INSERT INTO wake_keys (organization_id, idempotency_key, run_id)
    SELECT organization_id, idempotency_key, id FROM runs;
    INSERT INTO merged_wakes (wake_id, run_id, organization_id, idempotency_key)
    SELECT gen_random_uuid(), id, organization_id, idempotency_key FROM runs;
    INSERT INTO refused_wakes (wake_id, organization_id, task_id, reason, record)
    SELECT gen_random_uuid(), organization_id, task_id, 'allowance_exhausted', '{}' FROM runs;
    INSERT INTO shadowed_wakes (wake_id, organization_id, task_id, reasons, record)
    SELECT gen_random_uuid(), organization_id, task_id, 'allowance_exhausted', '{}' FROM runs;
";

/// An index of what is queued has nothing in it then, and to walk all of it looks like a bargain.
const ENDED: &str = "
    ALTER TABLE runs DISABLE TRIGGER USER;
    UPDATE runs SET status = 'succeeded';
    ALTER TABLE runs ENABLE TRIGGER USER;
    REINDEX TABLE runs;
    ANALYZE;
";

/// The plan of every statement, as the store's connections plan, after a look at it.
async fn plans(subject: &OnPostgres) -> BTreeMap<String, String> {
    let mut plans = BTreeMap::new();
    let settings = ["enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin"];
    let options: PgConnectOptions = subject.database.url().parse().unwrap();
    let mut connection = options
        .options(settings.map(|setting| (setting, "off")))
        .options([("plan_cache_mode", "force_generic_plan")])
        .connect()
        .await
        .unwrap();
    for (name, sql) in statements("postgres") {
        if name == "read_schema" {
            continue;
        }
        let arguments = (1..100).take_while(|number| sql.contains(&format!("${number}"))).count();
        let prepare = format!("PREPARE {name} AS {sql}");
        sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut connection).await.unwrap();
        let nulls = vec!["NULL"; arguments].join(", ");
        let explain = format!("EXPLAIN (COSTS OFF) EXECUTE {name} ({nulls})");
        let rows = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_all(&mut connection).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        for costly in ["Seq Scan", "Sort", "Bitmap", "Hash", "Merge Join"] {
            assert!(!plan.contains(costly), "{name}: {costly} in\n{plan}");
        }
        // A look-up without a condition would be a scan by another name.
        let scans = plan.matches("Index Scan").count() + plan.matches("Index Only Scan").count();
        assert_eq!(plan.matches("Index Cond").count(), scans, "{name}:\n{plan}");
        plans.insert(name, plan);
    }
    plans
}

/// Empty, and full of what has ended, with statistics of that.
#[tokio::test(flavor = "multi_thread")]
async fn no_sqlite_plan_scans_a_table() {
    let subject = OnSqlite::open().await;
    let Outside::Sqlite(pool) = &subject.outside else { unreachable!("opened on SQLite") };
    for (state, change) in [("empty", "SELECT 1"), ("full and analysed", SQLITE_ENDED)] {
        subject.outside.execute(change).await;
        // What is open already does not know of new statistics.
        let mut connection = (*pool.connect_options()).clone().connect().await.unwrap();
        for (name, sql) in statements("sqlite") {
            if name == "read_schema" {
                continue;
            }
            let steps = sqlite_plan(&mut connection, &sql).await.unwrap();
            for step in &steps {
                let harmless = ["SCAN w", "SCAN j", "SCAN CONSTANT ROW"].contains(&step.as_str());
                assert!(!step.starts_with("SCAN") || harmless, "{state}: {name}: {steps:#?}");
                assert!(!step.contains("TEMP B-TREE"), "{state}: {name}: {steps:#?}");
            }
        }
    }
}

/// 20,000 ended runs, each with its key, one that was merged and one that was refused. An index of what
/// is queued has nothing in it then, and to walk all of it looks like a bargain.
pub const SQLITE_ENDED: &str = "
    INSERT INTO runs (id, organization_id, project_id, agent_profile_id, reason, idempotency_key, task_id,
                      actor_type, status)
    WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 20000)
    SELECT printf('00000000-0000-0000-0000-%012d', i), 'o' || (i % 50), 'p' || (i % 7), 'a' || (i % 500),
           'task_assigned', 'k' || i, 't' || (i / 4), 'agent', 'succeeded'
    FROM s;
    INSERT INTO wake_keys (organization_id, idempotency_key, run_id)
    SELECT organization_id, idempotency_key, id FROM runs;
    INSERT INTO merged_wakes (wake_id, run_id, organization_id, idempotency_key)
    SELECT replace(id, '00000000-', '00000001-'), id, organization_id, idempotency_key FROM runs;
    INSERT INTO refused_wakes (wake_id, organization_id, task_id, reason, record)
    SELECT replace(id, '00000000-', '00000002-'), organization_id, task_id, 'allowance_exhausted', '{}'
    FROM runs;
    ANALYZE
";

/// Or it compiles a statement anew for every value that is bound to a `LIMIT`, and for nearly every one
/// once there are statistics: for a batch's hundreds of rows that takes longer than to run it.
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_plans_whatever_the_values_are() {
    let subject = OnSqlite::open().await;
    let sql = "SELECT sqlite_compileoption_used('ENABLE_QPSG')";
    assert_eq!(subject.outside.number(sql).await, 1, "see .cargo/config.toml");
}
