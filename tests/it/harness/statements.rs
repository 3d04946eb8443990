//! The statements of a dialect, as files.

use std::path::Path;

use sqlx::{AssertSqlSafe, Row as _, SqliteExecutor};

/// Name and text of every `.sql` file of a dialect in this part of its directory, in order of their
/// names; `""` is what is in no part.
pub fn statements(dialect: &str, part: &str) -> Vec<(String, String)> {
    let directory =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store").join(dialect).join(part);
    let mut found: Vec<(String, String)> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .collect();
    found.sort();
    found
}

/// The steps of a statement's plan; an error where it is not valid.
pub async fn sqlite_plan(
    database: impl SqliteExecutor<'_>,
    sql: &str,
) -> Result<Vec<String>, sqlx::Error> {
    let explained = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")));
    let rows = explained.fetch_all(database).await?;
    rows.iter().map(|row| row.try_get("detail")).collect()
}
