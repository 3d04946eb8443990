//! The migrations of both dialects, which the program carries with it.
//!
//! They are listed here rather than found by sqlx's macro: that is a second sqlx, with both its
//! databases, which every build would compile for itself first.

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// A dialect's, in their order: the files of its directory, which have the same names in both.
macro_rules! migrations {
    ($dialect:literal) => {
        $crate::store::migrations::carried!(
            $dialect,
            "0001_tables",
            "0002_agent_changes",
            "0003_history",
            "0004_queue",
            "0005_limits",
            "0006_runners",
            "0007_redrives",
            "0008_shadow",
            "0009_arrivals",
            "0010_arrivals_once",
        )
    };
}
pub(super) use migrations;

macro_rules! carried {
    ($dialect:literal, $($file:literal),+ $(,)?) => {
        std::sync::LazyLock::new(|| {
            $crate::store::migrations::migrator(&[$((
                $file,
                include_str!(concat!(
                    env!("CARGO_MANIFEST_DIR"), "/migrations/", $dialect, "/", $file, ".sql"
                )),
            )),+])
        })
    };
}
pub(super) use carried;

/// Of files by their names: a version, and words that say what it is.
pub(super) fn migrator(files: &[(&'static str, &'static str)]) -> Migrator {
    let migration = |&(file, sql): &(&'static str, &'static str)| {
        let (version, words) = file.split_once('_').expect("the list says both");
        let version = version.parse().expect("the list begins with numbers");
        let words = words.replace('_', " ").into();
        Migration::new(version, words, MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(files.iter().map(migration).collect())
}
