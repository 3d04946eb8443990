//! Control answers while the data path is full and stuck.

use sqlx::Connection as _;

use crate::harness::http::request;
use crate::through_servers::stage::{Dialect, Setting, Stage};
use crate::through_servers::story::assignment;

/// Asked of each path while nothing moves.
const ROUNDS: usize = 20;
const LANES: u32 = 4;
const BATCH: u32 = 5;
const CONNECTIONS: u32 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn health_and_metrics_answer_while_every_lane_and_connection_is_stuck() {
    let setting = Setting { partitions: LANES, batch_wakes_max: BATCH, ..Setting::default() };
    let stage = Stage::with(Dialect::Postgres, setting).await;
    for nth in 0..200 {
        stage.publish(&assignment(&format!("t{nth}"), "a1", 1)).await;
    }
    // Nothing is read and nothing recorded while this is held.
    let mut pool = sqlx::PgConnection::connect(&stage.database_url).await.unwrap();
    let mut command = stage.command(&["run"]);
    command.env("WAKEGATE_DATABASE_CONNECTIONS_MAX", CONNECTIONS.to_string());
    command.env("WAKEGATE_LANES_STORE_AWAY_GIVE_UP_MS", "3600000");
    // It has connections of its own, beside those that are counted here.
    command.env("WAKEGATE_QUEUE_ENABLED", "off");
    let worker = crate::harness::worker::Worker::spawn(command).await;
    stage.settled().await;
    let lock = "BEGIN; LOCK TABLE lanes, runs, wake_keys, agents, pauses, refused_wakes, \
                merged_wakes, _sqlx_migrations IN ACCESS EXCLUSIVE MODE";
    sqlx::raw_sql(lock).execute(&mut pool).await.unwrap();
    for nth in 0..400 {
        stage.publish(&assignment(&format!("u{nth}"), "a1", 1)).await;
    }
    let full = async |when: &str| {
        for lane in 0..LANES {
            let all = 2 * BATCH as usize;
            stage.until_lane(lane, when, |info| info.num_ack_pending == all).await;
        }
    };
    full("the lanes never filled").await;
    let waiting = "SELECT count(*) FROM pg_stat_activity
                   WHERE application_name = 'wakegate' AND wait_event_type = 'Lock'";
    stage.until_number(waiting, 1).await;

    for _ in 0..ROUNDS {
        let readyz = request(worker.addr(), "GET", "/readyz").await.unwrap();
        assert!(matches!(readyz.status, 200 | 503), "{readyz:?}");
        assert!(readyz.json()["components"]["database"].is_object());
        let metrics = request(worker.addr(), "GET", "/metrics").await.unwrap();
        assert_eq!(metrics.status, 200);
        assert!(metrics.body.contains("wakegate_lane_pending"), "{}", metrics.body);
        assert_eq!(request(worker.addr(), "GET", "/livez").await.unwrap().status, 200);
    }
    // And it is not that the worker moved on meanwhile: nothing more was delivered or decided.
    let said =
        worker.until_readyz("a stuck database is not seen", |answer| answer.status == 503).await;
    assert_eq!(said["ready"], false);
    full("the lanes did not stay full").await;
    let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'wakegate'";
    let open = stage.outside.number(open).await;
    assert!(open <= i64::from(CONNECTIONS), "{open} connections");

    sqlx::raw_sql("ROLLBACK").execute(&mut pool).await.unwrap();
    stage.settled().await;
    assert_eq!(stage.outside.run_count().await, 600, "{}", worker.log());
}
