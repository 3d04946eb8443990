//! Each statement is valid on its database, and what is asked often is looked up by an index.

use sqlx::{AssertSqlSafe, Executor as _, SqlSafeStr as _};

use crate::harness::statements::sqlite_plan;
use crate::harness::{postgres, sqlite};

/// Every `.sql` file of a dialect's control path.
fn statements(dialect: &str) -> Vec<(String, String)> {
    crate::harness::statements::statements(dialect, "control")
}

#[test]
fn the_dialects_have_the_same_statements() {
    let names = |dialect| statements(dialect).into_iter().map(|(name, _)| name);
    assert!(names("postgres").count() >= 12);
    assert!(names("postgres").eq(names("sqlite")));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_postgres_statement_is_valid() {
    let database = postgres::database().await;
    let mut connection = database.pool().acquire().await.unwrap();
    for (name, sql) in statements("postgres") {
        let prepared = connection.prepare(AssertSqlSafe(sql).into_sql_str()).await;
        assert!(prepared.is_ok(), "{name}: {:?}", prepared.err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sqlite_statement_is_valid_and_only_counts_and_lists_walk_a_table() {
    let (_directory, url) = sqlite::database().await;
    let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
    for (name, sql) in statements("sqlite") {
        let steps = sqlite_plan(&pool, &sql).await.unwrap_or_else(|e| panic!("{name}: {e}"));
        let walks = name.starts_with("count_") || name.starts_with("list_");
        for step in steps {
            assert!(walks || !step.starts_with("SCAN"), "{name}: {step}");
            let sorts = step.contains("TEMP B-TREE FOR ORDER BY");
            assert!(!sorts || !name.starts_with("list_"), "{name}: {step}");
        }
    }
}
