//! The role of `ops/postgres/run-role.sql`: `run` needs no more, and can do no more.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use wakegate::store::postgres::PostgresStore;
use wakegate::store::{LaneKey, Store as _, StoreOptions};
use wakegate::wake::{UtcMicros, WakeId};

use crate::harness::golden::repository;
use crate::harness::outside::Outside;
use crate::harness::postgres;
use crate::runs::asking::{ask, claim, held, with};
use crate::runs::events::until_told;
use crate::through_servers::stage::{Dialect, Stage};
use crate::through_servers::story;

const ROLE: &str = "wakegate_run";
/// Answers runners, for the worker.
const QUEUE_ROLE: &str = "wakegate_queue";

/// A stage whose worker is the role, and the owner's URL.
async fn as_role() -> (Stage, String) {
    let mut stage = Stage::set(Dialect::Postgres).await;
    let grants = std::fs::read_to_string(repository().join("ops/postgres/run-role.sql")).unwrap();
    stage.outside.execute(&grants).await;
    let owner = stage.database_url.clone();
    stage.database_url = as_user(&owner, ROLE);
    (stage, owner)
}

fn as_user(url: &str, role: &str) -> String {
    url.replace("postgres://postgres@", &format!("postgres://{role}@"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_does_everything_with_a_role_that_has_no_ddl() {
    let (stage, owner) = as_role().await;
    let grants = std::fs::read_to_string(repository().join("ops/postgres/queue-role.sql")).unwrap();
    stage.outside.execute(&grants).await;
    let queue = as_user(&owner, QUEUE_ROLE);
    let worker = stage.worker_with(&[("WAKEGATE_QUEUE_DATABASE_URL", &queue)]).await;
    let told = story::tell(&stage).await;
    assert!(told.len() > 10, "the story has every outcome");
    stage.settled().await;
    assert!(worker.moved(&["wakegate_lane_holds_total"]).await.is_empty(), "{}", worker.log());
    assert!(!worker.log().contains("permission denied"), "{}", worker.told("it was denied"));

    // Runs are claimed, started, cancelled and ended, and what became of them is published.
    let client = stage.nats.client().await;
    for run in claim(&client, 3, 0).await {
        ask(&client, "start", held(&run)).await.unwrap();
        let cancel = serde_json::json!({
            "run_id": run["run_id"], "scope": "platform", "actor": "a", "reason": "r",
        });
        ask(&client, "cancel", cancel).await.unwrap();
        ask(&client, "heartbeat", held(&run)).await.unwrap();
        let end = with(held(&run), serde_json::json!({ "status": "cancelled" }));
        ask(&client, "finish", end).await.unwrap();
    }
    until_told(&stage).await;
    assert!(!worker.log().contains("permission denied"), "{}", worker.told("it was denied"));

    // What a story does not come to: attempts at a wake alone, begun twice, taken back twice.
    let store = PostgresStore::connect(&stage.database_url, &StoreOptions::default()).unwrap();
    let lane = LaneKey {
        stream: Arc::from("WAKES"),
        stream_created_at: UtcMicros::from_micros(1),
        lane: 7,
    };
    let wake = WakeId::derive("WAKES", 1, 1);
    assert_eq!(store.begin_isolated(&lane, wake).await.unwrap(), 0);
    assert_eq!(store.begin_isolated(&lane, wake).await.unwrap(), 1);
    store.end_isolated(wake).await.unwrap();
    store.end_isolated(wake).await.unwrap();
    assert_eq!(stage.outside.number("SELECT count(*) FROM isolated_wakes").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_role_makes_changes_and_drops_nothing_and_decides_nothing_for_operators() {
    let (stage, _) = as_role().await;
    let mut role = PgConnection::connect(&stage.database_url).await.unwrap();
    for sql in [
        "CREATE TABLE mine (a int)",
        "CREATE INDEX mine ON runs (id)",
        "CREATE VIEW mine AS SELECT 1",
        "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE SCHEMA mine",
        "CREATE ROLE mine",
        "ALTER TABLE runs ADD COLUMN mine int",
        "ALTER TABLE runs DISABLE TRIGGER ALL",
        "DROP TABLE runs",
        "DROP VIEW counted_runs",
        "TRUNCATE runs",
        "DELETE FROM runs",
        "UPDATE runs SET status = 'succeeded'",
        "UPDATE runs SET organization_id = 'umbra'",
        "UPDATE runs SET requested_at = now()",
        "DELETE FROM wake_keys",
        "UPDATE wake_keys SET organization_id = 'umbra'",
        "DELETE FROM refused_wakes",
        "UPDATE refused_wakes SET record = '{}'",
        "DELETE FROM merged_wakes",
        "DELETE FROM lanes",
        "INSERT INTO agents (organization_id, agent_profile_id, status) VALUES ('', 'a', 'idle')",
        "UPDATE agents SET status = 'idle'",
        "INSERT INTO pauses (scope, mode) VALUES ('platform', 'drain')",
        "UPDATE pauses SET released_at = now()",
        "DELETE FROM pauses",
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, '', true, '', 0)",
        "DELETE FROM _sqlx_migrations",
        "COPY runs TO PROGRAM 'cat'",
        "SELECT pg_read_file('/etc/passwd')",
    ] {
        let refused = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut role).await;
        let error = refused.expect_err(sql);
        let code = error.as_database_error().and_then(|error| error.code().map(String::from));
        assert_eq!(code.as_deref(), Some("42501"), "{sql}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn migrating_needs_the_owner() {
    let (stage, owner) = as_role().await;
    let denied = |said: &str| said.contains("permission denied");
    let refused = stage.run(&["migrate"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(denied(&refused.stderr), "{}", refused.stderr);

    let empty = postgres::empty_database().await;
    let mut other = stage;
    other.database_url = as_user(&empty.url(), ROLE);
    let refused = other.run(&["migrate"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(denied(&refused.stderr), "{}", refused.stderr);
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(Outside::Postgres(empty.pool()).number(tables).await, 0);

    other.database_url = owner;
    assert_eq!(other.run(&["migrate"]).code, Some(0));
}
