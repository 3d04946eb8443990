//! PostgreSQL: killed under load, in recovery, out of connections, and slow or locked where one gate
//! reads only.

use std::process::Command;

use rand::Rng as _;
use sqlx::Connection as _;

use super::accounts::add_up;
use super::load::{Load, SMALL, until_open};
use crate::harness::cluster::Cluster;
use crate::harness::outside::Outside;
use crate::harness::worker::Worker;
use crate::harness::world::brief;
use crate::through_servers::stage::{Dialect, Stage};
use crate::through_servers::story::{assignment, by_agent};

const KILLS: u32 = 3;
/// A stage on a server of its own.
async fn stage_on(cluster: &Cluster) -> Stage {
    let mut stage = Stage::with(Dialect::Sqlite, SMALL).await;
    stage.database_url = cluster.url();
    stage.outside = Outside::Postgres(cluster.pool());
    let migrated = stage.run(&["migrate"]);
    assert_eq!(migrated.code, Some(0), "{}", migrated.stderr);
    stage
}

/// Waits until a lane holds and says why.
async fn holds(worker: &Worker, reason: &str) {
    let says = |answer: &crate::harness::http::Answer| {
        let lane = &answer.json()["components"]["lane-0"];
        lane["state"] == "waiting" && lane["reason"].as_str().unwrap_or("").contains(reason)
    };
    worker.until_readyz(&format!("the lane does not hold for {reason:?}"), says).await;
}

#[tokio::test]
async fn postgres_killed_again_and_again_under_load_costs_nothing_but_time() {
    let mut cluster = Cluster::start().await;
    let stage = stage_on(&cluster).await;
    let mut worker = stage.worker().await;
    let mut load = Load::new(rand::random());
    let mut published = 0;
    for _ in 0..KILLS {
        load.publish(&stage, 60).await;
        until_open(&stage, load.rng.random_range(0..60)).await;
        cluster.kill();
        load.publish(&stage, 10).await;
        published += 70;
        worker.until_readyz("it is not noticed", |answer| answer.status == 503).await;
        cluster.start_again().await;
    }
    stage.settled().await;
    worker.ready().await;
    assert!(worker.runs(), "{}", worker.log());
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.on_stream(), accounts.gone, accounts.lost), (published, 0, 0));
}

#[tokio::test]
async fn in_recovery_postgres_makes_the_lanes_hold_until_it_is_promoted() {
    let mut cluster = Cluster::start().await;
    let stage = stage_on(&cluster).await;
    let worker = stage.worker().await;
    stage.publish_for_outcome(&assignment("t1", "a1", 0)).await;
    stage.settled().await;
    cluster.kill();
    cluster.be_a_standby();
    cluster.start_again().await;
    assert_eq!(stage.outside.number("SELECT pg_is_in_recovery()::int::bigint").await, 1);
    let mut load = Load::new(rand::random());
    load.publish(&stage, 30).await;
    let says = |answer: &crate::harness::http::Answer| {
        answer.body.contains("read-only transaction") || answer.body.contains("recovery")
    };
    worker.until_readyz("no lane says why it holds", says).await;
    stage.outside.execute("SELECT pg_promote()").await;
    stage.settled().await;
    worker.ready().await;
    assert_eq!(add_up(&stage).await.on_stream(), 31);
}

/// A role of the worker's own, whose connections can be limited.
async fn with_role(stage: &Stage) -> (String, Command) {
    let (server, name) = stage.database_url.rsplit_once('/').expect("it names a database");
    let role = format!("worker_of_{name}");
    let grant = format!(
        "CREATE ROLE {role} LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}; \
         GRANT ALL ON SCHEMA public TO {role}"
    );
    stage.outside.execute(&grant).await;
    let url = format!("{}/{name}", server.replace("postgres@", &format!("{role}@")));
    let mut command = stage.command(&["run"]);
    command.env("WAKEGATE_DATABASE_URL", url);
    (role, command)
}

#[tokio::test]
async fn out_of_connections_postgres_makes_the_lane_hold_and_then_go_on() {
    let stage = Stage::set(Dialect::Postgres).await;
    let (role, command) = with_role(&stage).await;
    let worker = Worker::spawn(command).await;
    worker.ready().await;
    stage.publish_for_outcome(&assignment("t1", "a1", 0)).await;
    stage.outside.execute(&format!("ALTER ROLE {role} CONNECTION LIMIT 0")).await;
    let end = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = '{role}'"
    );
    stage.outside.number(&end).await;
    let mut load = Load::new(rand::random());
    load.publish(&stage, 30).await;
    holds(&worker, "no connection within").await;
    stage.outside.execute(&format!("ALTER ROLE {role} CONNECTION LIMIT -1")).await;
    stage.settled().await;
    worker.ready().await;
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.on_stream(), accounts.gone, accounts.lost), (31, 0, 0));
    drop(worker);
    stage.outside.execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

/// A worker whose reads are given up after half a second.
async fn impatient(stage: &Stage) -> Worker {
    stage.worker_with(&[("WAKEGATE_DATABASE_READ_DEADLINE_MS", "500")]).await
}

async fn gate_errors(worker: &Worker) -> Vec<String> {
    worker.moved(&["wakegate_gate_errors_total"]).await.into_keys().collect()
}

#[tokio::test]
async fn a_time_out_of_one_gates_read_only_is_that_gates_posture() {
    let stage = Stage::set(Dialect::Postgres).await;
    let worker = impatient(&stage).await;
    stage.publish_for_outcome(&by_agent("t1", "a0")).await;
    stage.settled().await;

    // Gate 1 holds.
    let mut locker = sqlx::PgConnection::connect(&stage.database_url).await.unwrap();
    let lock = "BEGIN; LOCK TABLE agents IN ACCESS EXCLUSIVE MODE";
    sqlx::raw_sql(lock).execute(&mut locker).await.unwrap();
    let held = stage.ask(&by_agent("t1", "a1")).await;
    holds(&worker, "").await;
    assert_eq!(gate_errors(&worker).await, ["wakegate_gate_errors_total{gate=\"agent_status\"}"]);
    assert_eq!(stage.outside.run_count().await, 1);
    sqlx::raw_sql("ROLLBACK").execute(&mut locker).await.unwrap();
    assert_eq!(brief(&stage.outcome(&held).await), "queued");

    // Gate 5 stands open, and says so.
    let definition = stage.outside.take_view("counted_runs").await;
    let body = definition.strip_prefix("CREATE VIEW counted_runs AS").expect("it is a view");
    let waits = format!(
        "CREATE VIEW counted_runs AS SELECT t.* FROM \
         (SELECT 1 AS waited FROM pg_advisory_lock_shared(77) OFFSET 0) s CROSS JOIN ({}) t",
        body.trim().trim_end_matches(';')
    );
    stage.outside.execute(&waits).await;
    sqlx::raw_sql("SELECT pg_advisory_lock(77)").execute(&mut locker).await.unwrap();
    let open = stage.publish_for_outcome(&by_agent("t1", "a2")).await;
    assert_eq!(brief(&open), "queued/count_read_failed", "{}", worker.log());
    sqlx::raw_sql("SELECT pg_advisory_unlock_all()").execute(&mut locker).await.unwrap();
    stage.settled().await;
    assert!(gate_errors(&worker).await.iter().any(|name| name.contains("\"allowance\"")));
    assert_eq!(brief(&stage.publish_for_outcome(&by_agent("t1", "a3")).await), "queued");
    stage.settled().await;
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.queued, accounts.gone, accounts.lost), (4, 0, 0));
}

#[tokio::test]
async fn a_lock_on_runs_makes_the_lane_hold_and_admits_nothing_unchecked() {
    let stage = Stage::set(Dialect::Postgres).await;
    let worker = impatient(&stage).await;
    stage.publish_for_outcome(&by_agent("t1", "a0")).await;
    let mut locker = sqlx::PgConnection::connect(&stage.database_url).await.unwrap();
    let lock = "BEGIN; LOCK TABLE runs IN ACCESS EXCLUSIVE MODE";
    sqlx::raw_sql(lock).execute(&mut locker).await.unwrap();
    let mut load = Load::new(rand::random());
    load.publish(&stage, 30).await;
    holds(&worker, "").await;
    sqlx::raw_sql("ROLLBACK").execute(&mut locker).await.unwrap();
    stage.settled().await;
    worker.ready().await;
    let accounts = add_up(&stage).await;
    assert_eq!((accounts.on_stream(), accounts.gone, accounts.lost), (31, 0, 0));
    let unchecked = "SELECT count(*) FROM runs WHERE degraded_reason = 'count_read_failed'";
    assert_eq!(stage.outside.number(unchecked).await, 0, "{}", worker.log());
}
