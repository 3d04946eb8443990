//! The rows of the all-admit workload, written in bulk and nothing else: what the database can do
//! with the project's own tables, indices and constraints, without a stream and without a decision.

use std::time::{Duration, Instant};

use sqlx::{PgPool, QueryBuilder, Sqlite, SqlitePool};
use time::OffsetDateTime;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::Result;
use crate::database::{Connections, Database};
use crate::stream::PULL;
use crate::workloads::Event;

/// Rows of one statement: SQLite takes 32,766 parameters.
const SQLITE_ROWS: usize = 500;

/// What an all-admit event becomes.
#[derive(Debug, Clone)]
struct Row {
    id: Uuid,
    organization: String,
    project: String,
    agent: String,
    key: String,
    payload: String,
    task: String,
    actor: String,
    at: OffsetDateTime,
}

/// Writes the events' runs and keys, a transaction for each 500, over so many connections. The time
/// that took.
pub(crate) async fn insert(
    database: &Database,
    events: &[Event],
    connections: usize,
) -> Result<Duration> {
    let rows = events.iter().enumerate().map(|(at, event)| row(at, event));
    let rows: Vec<Row> = rows.collect::<Result<_>>()?;
    let shares: Vec<Vec<Row>> =
        rows.chunks(rows.len().div_ceil(connections)).map(<[Row]>::to_vec).collect();
    let started = Instant::now();
    let mut writing = JoinSet::new();
    for share in shares {
        match database.connections() {
            Connections::Postgres(pool) => writing.spawn(write_postgres(pool, share)),
            Connections::Sqlite(pool) => writing.spawn(write_sqlite(pool, share)),
        };
    }
    while let Some(written) = writing.join_next().await {
        written??;
    }
    Ok(started.elapsed())
}

fn row(at: usize, event: &Event) -> Result<Row> {
    let body: serde_json::Value = serde_json::from_slice(&event.body)?;
    let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
    let (organization, task) = (text("organization_id"), text("task_id"));
    let (project, actor) = (text("project_id"), text("acting_agent_id"));
    let agent = text("new_assignee_agent_profile_id");
    let key = format!("task_assigned:{task}:{agent}:{}", body["assignment_generation"]);
    let payload = format!(
        r#"{{"reason":"task_assigned","task_id":"{task}","organization_id":"{organization}","project_id":"{project}","actor_type":"agent","actor_id":"{actor}"}}"#,
    );
    // Ordered by time, as the worker's ids are: an index grows at its end.
    let millis = 1_767_225_600_000 + at as u64 / 100;
    let tail = u128::from_be_bytes(*Uuid::parse_str(&task)?.as_bytes()) & ((1 << 80) - 1);
    let random: [u8; 16] = tail.to_be_bytes();
    let random: [u8; 10] = random[6..].try_into()?;
    let id = uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid();
    Ok(Row {
        id,
        organization,
        project,
        agent,
        key,
        payload,
        task,
        actor,
        at: OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000)?,
    })
}

async fn write_postgres(pool: PgPool, rows: Vec<Row>) -> Result<()> {
    let mut connection = pool.acquire().await?;
    for batch in rows.chunks(PULL) {
        let mut batch: Vec<&Row> = batch.iter().collect();
        batch.sort_by_key(|row| (&row.organization, &row.key));
        let texts = |of: fn(&Row) -> &str| batch.iter().map(|row| of(row)).collect::<Vec<_>>();
        let ids: Vec<Uuid> = batch.iter().map(|row| row.id).collect();
        let at: Vec<OffsetDateTime> = batch.iter().map(|row| row.at).collect();
        let mut transaction = sqlx::Connection::begin(&mut *connection).await?;
        sqlx::query(
            "INSERT INTO wake_keys (organization_id, idempotency_key, run_id, requested_at) \
             SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[], $4::timestamptz[])",
        )
        .bind(texts(|row| &row.organization))
        .bind(texts(|row| &row.key))
        .bind(&ids)
        .bind(&at)
        .execute(&mut *transaction)
        .await?;
        sqlx::query(
            "INSERT INTO runs (id, organization_id, project_id, agent_profile_id, \
             idempotency_key, payload, task_id, actor_id, requested_at, decided_at, reason, \
             producer, actor_type) \
             SELECT r.*, 'task_assigned', 'task_mutation', 'agent' FROM unnest( \
             $1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], \
             $8::text[], $9::timestamptz[], $9::timestamptz[]) AS r",
        )
        .bind(&ids)
        .bind(texts(|row| &row.organization))
        .bind(texts(|row| &row.project))
        .bind(texts(|row| &row.agent))
        .bind(texts(|row| &row.key))
        .bind(texts(|row| &row.payload))
        .bind(texts(|row| &row.task))
        .bind(texts(|row| &row.actor))
        .bind(&at)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
    }
    Ok(())
}

async fn write_sqlite(pool: SqlitePool, rows: Vec<Row>) -> Result<()> {
    let mut connection = pool.acquire().await?;
    for batch in rows.chunks(SQLITE_ROWS) {
        let begin = "BEGIN IMMEDIATE";
        let mut transaction = sqlx::Connection::begin_with(&mut *connection, begin).await?;
        keys_sqlite(batch).build().execute(&mut *transaction).await?;
        runs_sqlite(batch).build().execute(&mut *transaction).await?;
        transaction.commit().await?;
    }
    Ok(())
}

fn keys_sqlite(batch: &[Row]) -> QueryBuilder<Sqlite> {
    let mut insert = QueryBuilder::new(
        "INSERT INTO wake_keys (organization_id, idempotency_key, run_id, requested_at) ",
    );
    insert.push_values(batch, |mut values, row| {
        values
            .push_bind(row.organization.clone())
            .push_bind(row.key.clone())
            .push_bind(row.id.hyphenated())
            .push_bind(micros(row.at));
    });
    insert
}

fn runs_sqlite(batch: &[Row]) -> QueryBuilder<Sqlite> {
    let mut insert = QueryBuilder::new(
        "INSERT INTO runs (id, organization_id, project_id, agent_profile_id, idempotency_key, \
         payload, task_id, actor_id, requested_at, decided_at, reason, producer, actor_type) ",
    );
    insert.push_values(batch, |mut values, row| {
        values
            .push_bind(row.id.hyphenated())
            .push_bind(row.organization.clone())
            .push_bind(row.project.clone())
            .push_bind(row.agent.clone())
            .push_bind(row.key.clone())
            .push_bind(row.payload.clone())
            .push_bind(row.task.clone())
            .push_bind(row.actor.clone())
            .push_bind(micros(row.at))
            .push_bind(micros(row.at))
            .push_bind("task_assigned")
            .push_bind("task_mutation")
            .push_bind("agent");
    });
    insert
}

fn micros(at: OffsetDateTime) -> i64 {
    i64::try_from(at.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX)
}
