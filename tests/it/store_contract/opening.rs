//! Opening a database: its URL, its schema, its constraints.

use wakegate::store::Database as _;
use wakegate::store::postgres::PostgresStore;
use wakegate::store::sqlite::SqliteStore;
use wakegate::store::{MigrateError, SchemaState, Store as _, StoreOptions};

use super::subject::{OnPostgres, OnSqlite, Subject as _};
use crate::harness::outside::Outside;
use crate::harness::{postgres, sqlite};

#[tokio::test]
async fn a_url_that_names_no_database_is_refused_without_its_secret() {
    let options = StoreOptions::default();
    for url in ["sqlite://x", "nats://u:hunter2@h", "postgres://u:hunter2@h:port/db", ""] {
        let error = PostgresStore::connect(url, &options).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
    for url in ["postgres://h/db", "sqlite::memory:", "sqlite://x?mode=memory", "wakegate.db"] {
        assert!(SqliteStore::connect(url, &options).is_err(), "{url}");
    }
}

/// The same walk on either database: no schema, migrated by four at once, newer.
macro_rules! walk {
    ($connect:expr, $outside:expr) => {{
        let store = $connect;
        assert_eq!(store.schema_state().await.unwrap(), SchemaState::Missing);
        let error = store.ping().await.unwrap_err().to_string();
        assert!(error.contains("run `wakegate migrate`"), "{error}");

        let mut rivals = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let rival = $connect;
            rivals.spawn(async move { rival.migrate().await });
        }
        for migrated in rivals.join_all().await {
            migrated.unwrap();
        }
        assert_eq!(store.schema_state().await.unwrap(), SchemaState::Current);
        store.ping().await.unwrap();
        store.migrate().await.unwrap();

        let outside: Outside = $outside;
        outside
            .execute(
                "INSERT INTO _sqlx_migrations
                 (version, description, success, checksum, execution_time)
                 VALUES (9999, 'from the future', true, '', 0)",
            )
            .await;
        let known = outside.number("SELECT max(version) FROM _sqlx_migrations WHERE version < 9999").await;
        let newer = SchemaState::Newer { found: 9999, known };
        assert_eq!(store.schema_state().await.unwrap(), newer);
        let error = store.ping().await.unwrap_err().to_string();
        assert!(error.contains("older than the schema"), "{error}");
        let refused = store.migrate().await;
        assert!(
            matches!(&refused, Err(MigrateError::Schema(state)) if *state == newer),
            "{refused:?}"
        );
    }};
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_schema_is_brought_up_once_and_never_down() {
    let database = postgres::empty_database().await;
    walk!(
        PostgresStore::connect(&database.url(), &super::subject::OPTIONS).unwrap(),
        Outside::Postgres(database.pool())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sqlite_schema_is_brought_up_once_and_never_down() {
    let (_directory, url) = sqlite::empty_database();
    walk!(
        SqliteStore::connect(&url, &super::subject::OPTIONS).unwrap(),
        Outside::Sqlite(sqlx::SqlitePool::connect_lazy(&url).unwrap())
    );
}

/// Statements that break a promise of the types, each in one way.
fn broken_promises() -> Vec<String> {
    let run = |columns: &str, values: &str| {
        format!(
            "INSERT INTO runs (id, organization_id, agent_profile_id, reason, {columns})
             VALUES ('00000000-0000-0000-0000-000000000001', 'acme', 'builder', 'r', {values})"
        )
    };
    let long = |bytes: usize| format!("'{}'", "x".repeat(bytes));
    let accents = format!("'{}'", "é".repeat(129));
    let mut broken = vec![
        run("status", "'done'"),
        run("coalesced_count", "0"),
        run("degraded_reason", "'unknown'"),
        run("idempotency_key", "''"),
        run("idempotency_key", &long(1_572)),
        run("task_id", "''"),
        run("task_id", &long(257)),
        run("task_id", &accents),
        run("actor_type", &long(257)),
        run("actor_id", "''"),
        run("project_id", "''"),
        run("task_id, task_unusable", "'t', true"),
    ];
    for (organization, agent, reason) in [
        ("NULL", "'a'", "'r'"),
        (accents.as_str(), "'a'", "'r'"),
        ("''", "''", "'r'"),
        ("''", "'a'", "''"),
        ("''", "'a'", long(65).as_str()),
    ] {
        broken.push(format!(
            "INSERT INTO runs (id, organization_id, agent_profile_id, reason) VALUES
             ('00000000-0000-0000-0000-000000000001', {organization}, {agent}, {reason})"
        ));
    }
    for (id, scope, organization) in
        [("p1", "world", ""), ("p2", "platform", "acme"), ("", "platform", "")]
    {
        broken.push(format!(
            "INSERT INTO pauses (id, scope, organization_id, mode) VALUES
             ('{id}', '{scope}', '{organization}', 'drain')"
        ));
    }
    let twice = |scope: &str, organization: &str| {
        let insert = |id: &str| {
            format!(
                "INSERT INTO pauses (id, scope, organization_id, mode) VALUES
                 ('{scope} {id}', '{scope}', '{organization}', 'stop_now');"
            )
        };
        insert("1") + &insert("2")
    };
    broken.extend([twice("platform", ""), twice("organization", "acme")]);
    broken.extend(
        [
            "INSERT INTO pauses (scope, organization_id, mode) VALUES ('platform', '', 'off')",
            "INSERT INTO agents (organization_id, agent_profile_id, status)
             VALUES ('', 'a', 'asleep')",
            "INSERT INTO agents (organization_id, agent_profile_id, status)
             VALUES ('', '', 'idle')",
            "INSERT INTO refused_wakes (wake_id, organization_id, reason, record)
             VALUES ('00000000-0000-0000-0000-000000000001', '', 'because', '{}')",
            "INSERT INTO wake_keys (organization_id, idempotency_key, run_id)
             VALUES ('', '', '00000000-0000-0000-0000-000000000001')",
            "INSERT INTO lanes (stream, lane, stream_created_at, decided_sequence)
             SELECT 'WAKES', -1, stream_created_at, 0 FROM lanes",
            "UPDATE lanes SET decided_sequence = -1",
        ]
        .map(str::to_owned),
    );
    broken
}

async fn assert_refused(outside: &Outside) {
    for sql in broken_promises() {
        let raw = sqlx::raw_sql(sqlx::AssertSqlSafe(sql.clone()));
        let refused = match outside {
            Outside::Sqlite(pool) => raw.execute(pool).await.map(drop),
            Outside::Postgres(pool) => raw.execute(pool).await.map(drop),
        };
        let error = refused.expect_err(&sql);
        let database = error.as_database_error().unwrap_or_else(|| panic!("{sql}: {error}"));
        let kind = database.kind();
        assert!(!matches!(kind, sqlx::error::ErrorKind::Other), "{sql}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_repeats_what_the_types_promise() {
    let subject = OnPostgres::open().await;
    super::given::Lane::take(subject.store(), 0).await;
    assert_refused(&subject.outside).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_repeats_what_the_types_promise() {
    let subject = OnSqlite::open().await;
    super::given::Lane::take(subject.store(), 0).await;
    assert_refused(&subject.outside).await;
    for sql in [
        "INSERT INTO wake_keys (organization_id, idempotency_key, run_id) VALUES ('', 'k', 'A')",
        "INSERT INTO runs (id, organization_id, agent_profile_id, reason, payload) VALUES
         ('00000000-0000-0000-0000-000000000001', '', 'a', 'r', 'a' || char(0) || 'b')",
    ] {
        let Outside::Sqlite(pool) = &subject.outside else { unreachable!("opened on SQLite") };
        sqlx::raw_sql(sql).execute(pool).await.expect_err(sql);
    }
}
