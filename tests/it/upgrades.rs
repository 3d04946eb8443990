//! A database from any migration, with data in it, comes forward; a program older than its database
//! says so.

mod rows;

use std::path::Path;

use serde_json::json;
use sqlx::migrate::Migrator;

use self::rows::{fill, rows};
use crate::harness::golden::repository;
use crate::harness::outside::Outside;
use crate::harness::worker::Worker;
use crate::harness::{postgres, sqlite};
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Stage};
use crate::through_servers::story::{assignment, by_agent};

on_both_databases!(
    every_schema_with_data_comes_forward,
    a_worker_older_than_the_schema_says_so_and_ends,
);

/// A stage on a database without a schema, and what keeps that database.
async fn on_empty_database(dialect: Dialect) -> (Stage, Outside, Box<dyn std::any::Any + Send>) {
    let mut stage = Stage::set(dialect).await;
    let (url, outside, kept): (_, _, Box<dyn std::any::Any + Send>) = match dialect {
        Dialect::Sqlite => {
            let (directory, url) = sqlite::empty_database();
            let pool = sqlx::SqlitePool::connect(&format!("{url}?mode=rwc")).await.unwrap();
            (url, Outside::Sqlite(pool), Box::new(directory))
        }
        Dialect::Postgres => {
            let database = postgres::empty_database().await;
            (database.url(), Outside::Postgres(database.pool()), Box::new(database))
        }
    };
    stage.database_url = url;
    (stage, outside, kept)
}

async fn migrations(dialect: Dialect) -> Migrator {
    let directory = match dialect {
        Dialect::Sqlite => "migrations/sqlite",
        Dialect::Postgres => "migrations/postgres",
    };
    Migrator::new(repository().join(Path::new(directory))).await.unwrap()
}

/// The database as the version `to` of this program left it.
async fn bring_to(migrations: &Migrator, outside: &Outside, to: i64) {
    match outside {
        Outside::Sqlite(pool) => migrations.run_to(to, pool).await,
        Outside::Postgres(pool) => migrations.run_to(to, pool).await,
    }
    .unwrap();
}

async fn every_schema_with_data_comes_forward(dialect: Dialect) {
    let migrations = migrations(dialect).await;
    let versions: Vec<i64> = migrations.iter().map(|migration| migration.version).collect();
    let latest = *versions.last().expect("there is a migration");
    for &version in &versions {
        let (stage, outside, _kept) = on_empty_database(dialect).await;
        bring_to(&migrations, &outside, version).await;
        fill(&outside).await;
        let before = rows(&outside).await;
        if version < latest {
            let early = stage.run(&["run"]);
            assert_eq!(early.code, Some(1), "{version}: {}", early.stderr);
            let says = format!("schema is version {version}, this program needs {latest}");
            assert!(early.stderr.contains(&says), "{version}: {}", early.stderr);
        }
        for round in ["forward", "again"] {
            let migrated = stage.run(&["migrate"]);
            assert_eq!(migrated.code, Some(0), "{version} {round}: {}", migrated.stderr);
            assert_eq!(rows(&outside).await, before, "{version} {round}: no row was touched");
            let when = format!("{version} {round}");
            crate::queue_store::given::assert_counts(&outside, &when).await;
        }
        assert_old_rows_count(&stage, &outside, version).await;
    }
}

/// What was there before the upgrade means to the new worker what it meant to the old one.
async fn assert_old_rows_count(stage: &Stage, outside: &Outside, version: i64) {
    let worker = stage.worker().await;
    let paused = assignment("t1", "a1", 1).with(json!({ "organization_id": "paused" }));
    for (event, outcome, reason) in [
        (assignment("fresh", "a1", 1), "queued", None),
        (assignment("known", "a1", 1), "deduplicated", Some("windowed")),
        (assignment("t2", "stopped", 1), "refused", Some("agent_stopped")),
        (paused, "refused", Some("organization_paused")),
        (by_agent("busy", "a1"), "refused", Some("allowance_exhausted")),
    ] {
        let record = stage.publish_for_outcome(&event).await;
        let told = worker.told(&format!("{version}: {record}"));
        assert_eq!(record["outcome"], outcome, "{told}");
        assert_eq!(record["reason"].as_str(), reason, "{told}");
    }
    let fresh = "SELECT count(*) FROM runs WHERE task_id = 'fresh'";
    assert_eq!(outside.number(fresh).await, 1);
}

/// What a database of a later program would say of itself.
const FROM_THE_FUTURE: &str = "INSERT INTO _sqlx_migrations
    (version, description, success, checksum, execution_time)
    VALUES (9999, 'from the future', true, '', 0)";

async fn a_worker_older_than_the_schema_says_so_and_ends(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    stage.publish(&assignment("t1", "a1", 1)).await;
    let running = stage.worker().await;
    stage.settled().await;
    stage.outside.execute(FROM_THE_FUTURE).await;
    let known = stage
        .outside
        .number("SELECT max(version) FROM _sqlx_migrations WHERE version < 9999")
        .await;
    let says = format!(
        "the database's schema is version 9999, this worker knows {known} only: the worker is older \
         than the schema, install a newer one"
    );

    // One that runs already finishes nothing half done: it says so and is not ready.
    let readyz =
        running.until_readyz("a newer schema is not seen", |answer| answer.status == 503).await;
    let reason = readyz["components"]["database"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains(&says), "{readyz}");

    let before = stage.rows().await;
    for arguments in [&["run"][..], &["run", "--until-caught-up"], &["migrate"]] {
        let ended = stage.run(arguments);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        assert!(ended.stderr.contains(&says), "{arguments:?}: {}", ended.stderr);
    }
    assert_eq!(stage.rows().await, before, "nothing was changed");
    drop::<Worker>(running);
}
