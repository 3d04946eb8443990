//! A SQLite file, one a test.

use tempfile::TempDir;
use wakegate::store::sqlite::SqliteStore;
use wakegate::store::{Database as _, StoreOptions};

/// A file with the current schema; it goes with the directory.
pub async fn database() -> (TempDir, String) {
    let (directory, url) = empty_database();
    SqliteStore::connect(&url, &StoreOptions::default()).unwrap().migrate().await.unwrap();
    (directory, url)
}

/// A name for a file that does not exist yet.
pub fn empty_database() -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", directory.path().join("wakegate.db").display());
    (directory, url)
}
