//! What PostgreSQL answered outlives a server that dies at that instant.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _};
use tokio::task::JoinSet;
use wakegate::store::postgres::PostgresStore;
use wakegate::store::queue::{FinishAnswer, QueueStore as _, RunEnd, RunEventKind};
use wakegate::store::{Database as _, Store as _, StoreOptions};

use super::given::{Lane, T0, id, keyed, run, wake};
use crate::harness::cluster::Cluster;
use crate::harness::outside::Outside;
use crate::harness::until_some;
use crate::queue_store::given::{asking, at, finishing, held};

/// A server that writes its log to disk when somebody waits for it, and otherwise too late to matter.
struct Mortal {
    cluster: Cluster,
    store: PostgresStore,
}

impl Mortal {
    async fn start() -> Self {
        let cluster = Cluster::start().await;
        let outside = Outside::Postgres(cluster.pool());
        outside.execute("ALTER SYSTEM SET wal_writer_delay = '10s'").await;
        outside.execute("SELECT pg_reload_conf()").await;
        let store = PostgresStore::connect(&cluster.url(), &StoreOptions::default()).unwrap();
        store.migrate().await.unwrap();
        Self { cluster, store }
    }

    /// Writes what can be seen at once and is on disk some time.
    async fn write_carelessly(&self, sql: &str) {
        let mut connection = PgConnection::connect(&self.cluster.url()).await.unwrap();
        for statement in ["SET synchronous_commit = off".to_owned(), sql.to_owned()] {
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
        }
    }

    async fn die_and_live_again(&mut self) {
        self.cluster.kill();
        self.cluster.start_again().await;
    }

    async fn number(&self, sql: &str) -> i64 {
        Outside::Postgres(self.cluster.pool()).number(sql).await
    }
}

const COUNT_RUNS: &str = "SELECT count(*) FROM runs";

#[tokio::test]
async fn what_is_recorded_is_there_after_the_server_died() {
    let mut mortal = Mortal::start().await;
    let mut lane = Lane::take(&mortal.store, 0).await;
    for number in 1..=3 {
        lane.admit(&mortal.store, [keyed(number, &format!("key {number}"))]).await;
        mortal.die_and_live_again().await;
        assert_eq!(mortal.number(COUNT_RUNS).await, i64::try_from(number).unwrap());
        assert_eq!(mortal.store.lane_cursor(&lane.key).await.unwrap(), lane.at);
    }
}

/// Its commit then waits for nobody, and what follows it for the disk.
#[tokio::test]
async fn what_is_recorded_beside_another_record_is_there_after_the_server_died() {
    let mut mortal = Mortal::start().await;
    let (mut lane, held_up) =
        (Lane::take(&mortal.store, 0).await, Lane::take(&mortal.store, 1).await);
    for number in 1..=3 {
        let mut elsewhere = PgConnection::connect(&mortal.cluster.url()).await.unwrap();
        sqlx::raw_sql("BEGIN; SELECT * FROM lanes WHERE lane = 1 FOR UPDATE")
            .execute(&mut elsewhere)
            .await
            .unwrap();
        let mut batch = held_up.batch();
        batch.runs.push(run(wake(100)));
        let store = mortal.store.clone();
        let mut waiting = JoinSet::new();
        waiting.spawn(async move { store.record(&batch).await.map(drop) });
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        let it_waits = async || (mortal.number(waits).await == 1).then_some(());
        until_some(it_waits, || "nobody waits".to_owned()).await;
        lane.admit(&mortal.store, [wake(number)]).await;
        drop(waiting);
        mortal.die_and_live_again().await;
        assert_eq!(mortal.number(COUNT_RUNS).await, i64::try_from(number).unwrap());
    }
}

#[tokio::test]
async fn what_a_repeated_decision_rests_on_is_there_after_the_server_died() {
    let mut mortal = Mortal::start().await;
    let mut lane = Lane::take(&mortal.store, 0).await;
    lane.admit(&mortal.store, [wake(1)]).await;
    // As by a worker that died between its commit and the disk.
    let theirs = format!("UPDATE runs SET id = '{}'", id(2));
    mortal.write_carelessly(&format!("ALTER TABLE runs DISABLE TRIGGER USER; {theirs}")).await;
    assert!(mortal.store.read_identity(&[id(2)]).await.unwrap().contains_key(&id(2)));
    let mut repeated = lane.batch();
    repeated.to = repeated.from;
    repeated.covers.push(id(2));
    mortal.store.record(&repeated).await.unwrap();
    mortal.die_and_live_again().await;
    let theirs = format!("SELECT count(*) FROM runs WHERE id = '{}'", id(2));
    assert_eq!(mortal.number(&theirs).await, 1);
}

#[tokio::test]
async fn what_is_noted_of_attempts_alone_is_there_after_the_server_died() {
    let mut mortal = Mortal::start().await;
    let lane = Lane::take(&mortal.store, 0).await;
    let attempts = "SELECT coalesce(max(attempts), 0)::bigint FROM isolated_wakes";
    let begin = async |mortal: &Mortal| mortal.store.begin_isolated(&lane.key, id(1)).await;
    let end = async |mortal: &Mortal| mortal.store.end_isolated(id(1)).await;
    for (begins, left) in [(true, 1), (true, 2), (false, 1), (false, 0)] {
        if begins {
            assert_eq!(i64::from(begin(&mortal).await.unwrap()), left - 1);
        } else {
            end(&mortal).await.unwrap();
        }
        mortal.die_and_live_again().await;
        assert_eq!(mortal.number(attempts).await, left);
        // A note is made once, and not on a connection that is dead: this read finds those.
        mortal.store.lane_cursor(&lane.key).await.unwrap();
    }
}

#[tokio::test]
async fn what_runners_and_everybody_are_told_is_there_after_the_server_died() {
    let mut mortal = Mortal::start().await;
    let mut lane = Lane::take(&mortal.store, 0).await;
    lane.admit(&mortal.store, [wake(1)]).await;
    let runs = mortal.store.claim(&asking(1, 1, 10)).await.unwrap();
    mortal.die_and_live_again().await;
    let status = async |mortal: &Mortal, status: &str| {
        mortal.number(&format!("SELECT count(*) FROM runs WHERE status = '{status}'")).await
    };
    assert_eq!(status(&mortal, "claimed").await, 1);

    mortal.store.start(&held(&runs[0]), at(71), at(11)).await.unwrap();
    mortal.die_and_live_again().await;
    assert_eq!(status(&mortal, "running").await, 1);

    let finish = finishing(held(&runs[0]), RunEnd::Succeeded, 12);
    assert_eq!(mortal.store.finish(&finish).await.unwrap(), FinishAnswer::Finished);
    mortal.die_and_live_again().await;
    assert_eq!(status(&mortal, "succeeded").await, 1);

    lane.admit(&mortal.store, [super::given::at(2, T0)]).await;
    mortal.write_carelessly("UPDATE runs SET status = 'cancelled' WHERE status = 'queued'").await;
    let events = mortal.store.take_events(100).await.unwrap();
    assert!(events.iter().any(|event| event.event == RunEventKind::Cancelled), "{events:?}");
    mortal.die_and_live_again().await;
    assert_eq!(status(&mortal, "cancelled").await, 1, "it was told, so it happened");
}
