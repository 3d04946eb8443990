//! A database restored from a backup does not know what is acknowledged: the lanes hold and say so,
//! and `wakegate streams rewind` has it delivered again.

use sqlx::Connection as _;

use super::accounts::add_up;
use super::load::{Load, SMALL};
use crate::harness::command::ended;
use crate::harness::outside::Outside;
use crate::harness::worker::Worker;
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Stage};

on_both_databases!(
    a_restored_database_is_reported_and_rewound_under_the_worker_that_holds,
    a_database_restored_under_the_worker_is_noticed_at_the_next_wake,
);

/// A copy of the database as it is; nobody works on it. Returns its URL.
async fn back_up(stage: &Stage) -> String {
    match &stage.outside {
        Outside::Sqlite(_) => {
            let file = stage.directory.path().join("backup.db");
            stage.outside.execute(&format!("VACUUM INTO '{}'", file.display())).await;
            format!("sqlite://{}", file.display())
        }
        Outside::Postgres(_) => {
            let (server, name) = stage.database_url.rsplit_once('/').expect("it names a database");
            let mut elsewhere =
                sqlx::PgConnection::connect(&format!("{server}/postgres")).await.unwrap();
            let copy = format!("backup_of_{name}");
            // A template must have no connections, and those of the pool come back when needed.
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
            sqlx::query(end).bind(name).execute(&mut elsewhere).await.unwrap();
            let create = sqlx::AssertSqlSafe(format!("CREATE DATABASE {copy} TEMPLATE {name}"));
            sqlx::raw_sql(create).execute(&mut elsewhere).await.unwrap();
            format!("{server}/{copy}")
        }
    }
}

/// The backup takes the place of the database.
fn restore(stage: &mut Stage, backup: String) {
    stage.outside = match &stage.outside {
        Outside::Sqlite(_) => {
            Outside::Sqlite(sqlx::sqlite::SqlitePool::connect_lazy(&backup).unwrap())
        }
        Outside::Postgres(_) => Outside::Postgres(sqlx::PgPool::connect_lazy(&backup).unwrap()),
    };
    stage.database_url = backup;
}

async fn holds_for_a_rewind(worker: &Worker) {
    let held = |answer: &crate::harness::http::Answer| {
        let components = answer.json()["components"].clone();
        answer.status == 503
            && ["lane-0", "lane-1"].iter().any(|lane| {
                components[lane]["state"] == "waiting"
                    && components[lane]["reason"]
                        .as_str()
                        .is_some_and(|reason| reason.contains("wakegate streams rewind"))
            })
    };
    worker.until_readyz("no lane holds for a rewind", held).await;
    assert!(worker.scrape().await["wakegate_lane_holds_total{cause=\"store\"}"] > 0.0);
}

async fn a_restored_database_is_reported_and_rewound_under_the_worker_that_holds(dialect: Dialect) {
    let mut stage = Stage::with(dialect, SMALL).await;
    let mut load = Load::new(rand::random());
    load.publish(&stage, 40).await;
    stage.catch_up();
    let backup = back_up(&stage).await;
    load.publish(&stage, 40).await;
    stage.catch_up();
    let before = add_up(&stage).await;
    let untouched = stage.run(&["streams", "rewind"]);
    assert_eq!(untouched.stdout, "lane-0: not behind\nlane-1: not behind\n", "{untouched:?}");

    restore(&mut stage, backup);
    let rows = stage.rows().await;
    let mut worker = stage.worker_starting().await;
    holds_for_a_rewind(&worker).await;
    let series = worker.scrape().await;
    let of = |family: &str, lane: u32| series[&format!("{family}{{lane=\"{lane}\"}}")];
    let seen =
        |lane| of("wakegate_lane_owned", lane) == 0.0 && of("wakegate_lane_pending", lane) > 0.0;
    assert!((0..2).any(seen), "whoever watches the metrics only sees it too: {series:?}");
    worker.until_logged("the database is behind the stream").await;
    load.publish(&stage, 10).await;
    assert_eq!(stage.rows().await, rows, "nothing goes on");
    let rewound = stage.run(&["streams", "rewind"]);
    assert_eq!(rewound.code, Some(0), "{rewound:?}");
    assert!(rewound.stdout.contains("delivered again from sequence"), "{rewound:?}");

    stage.settled().await;
    worker.ready().await;
    assert!(worker.runs(), "{}", worker.log());
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.on_stream(), accounts.gone, accounts.lost), (90, 0, 0));
    assert!(accounts.queued >= before.queued, "{accounts:?}, {before:?}");
    let again = stage.run(&["streams", "rewind"]);
    assert_eq!(again.stdout, "lane-0: not behind\nlane-1: not behind\n", "{again:?}");
    assert_eq!(stage.run(&["streams", "check"]).code, Some(0), "a rewound lane is as declared");
    drop(worker);
    let mut apply = stage.command(&["streams", "apply"]);
    let applied = ended(apply.env("WAKEGATE_LANES_BATCH_WAKES_MAX", "20"));
    assert_eq!(applied.code, Some(0), "and can be changed: {applied:?}");
    assert_eq!(stage.lane(0).await.config.max_ack_pending, 40);
    if let Outside::Postgres(pool) = &stage.outside {
        pool.close().await;
        let (server, copy) = stage.database_url.rsplit_once('/').unwrap();
        let url = format!("{server}/postgres");
        let mut elsewhere = sqlx::PgConnection::connect(&url).await.unwrap();
        let dropped = sqlx::AssertSqlSafe(format!("DROP DATABASE {copy} WITH (FORCE)"));
        sqlx::raw_sql(dropped).execute(&mut elsewhere).await.unwrap();
    }
}

async fn a_database_restored_under_the_worker_is_noticed_at_the_next_wake(dialect: Dialect) {
    let stage = Stage::with(dialect, SMALL).await;
    let worker = stage.worker().await;
    let mut load = Load::new(rand::random());
    load.publish(&stage, 40).await;
    stage.settled().await;
    // As a backup from before the first wake.
    let forget = match dialect {
        Dialect::Sqlite => "PRAGMA foreign_keys = OFF;",
        Dialect::Postgres => "",
    };
    let forget = format!(
        "{forget} DELETE FROM merged_wakes; DELETE FROM wake_keys; DELETE FROM refused_wakes; \
         DELETE FROM runs; UPDATE lanes SET decided_sequence = 0, known_sequence = 0"
    );
    stage.outside.execute(&forget).await;
    load.publish(&stage, 20).await;
    holds_for_a_rewind(&worker).await;
    let rewound = stage.run(&["streams", "rewind"]);
    assert_eq!(rewound.code, Some(0), "{rewound:?}");
    stage.settled().await;
    worker.ready().await;
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.on_stream(), accounts.gone, accounts.lost), (60, 0, 0));
}
