//! Each statement for runners is valid on its database, and what is asked often is looked up by an
//! index.

use sqlx::{AssertSqlSafe, Executor as _, Row as _, SqlSafeStr as _};

use crate::harness::statements::sqlite_plan;
use crate::harness::{postgres, sqlite};

/// Every `.sql` file of a dialect's.
fn statements(dialect: &str) -> Vec<(String, String)> {
    crate::harness::statements::statements(dialect, "runners")
}

#[test]
fn the_dialects_have_the_same_statements() {
    let names = |dialect| statements(dialect).into_iter().map(|(name, _)| name);
    // Several claims in one go are a loop where there is one connection that writes.
    let both = names("postgres").filter(|name| name != "claim_each");
    assert!(both.eq(names("sqlite")));
    assert!(names("sqlite").count() >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_postgres_statement_is_valid_and_walks_no_table_of_runs() {
    let database = postgres::database().await;
    let mut connection = database.pool().acquire().await.unwrap();
    let plans = "SET enable_seqscan = off; SET enable_bitmapscan = off; \
                 SET plan_cache_mode = force_generic_plan";
    sqlx::raw_sql(plans).execute(&mut *connection).await.unwrap();
    for (name, sql) in statements("postgres") {
        let prepared = connection.prepare(AssertSqlSafe(sql.clone()).into_sql_str()).await;
        assert!(prepared.is_ok(), "{name}: {:?}", prepared.err());
        let parameters = (1..=99).take_while(|nth| sql.contains(&format!("${nth}"))).count();
        let nulls = vec!["NULL"; parameters].join(", ");
        let prepare = format!("PREPARE {name} AS {sql}");
        sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut *connection).await.unwrap();
        let explain = format!("EXPLAIN EXECUTE {name}({nulls})");
        for row in sqlx::raw_sql(AssertSqlSafe(explain)).fetch_all(&mut *connection).await.unwrap()
        {
            let line: String = row.get(0);
            assert!(!line.contains("Seq Scan on runs"), "{name}: {line}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sqlite_statement_is_valid_and_walks_no_table_of_runs() {
    let (_directory, url) = sqlite::database().await;
    let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
    for (name, sql) in statements("sqlite") {
        let steps = sqlite_plan(&pool, &sql).await.unwrap_or_else(|e| panic!("{name}: {e}"));
        for detail in steps {
            let walks = detail.starts_with("SCAN runs") || detail.starts_with("SCAN u");
            assert!(!walks || detail.contains("runs_unstopped"), "{name}: {detail}");
        }
    }
}
