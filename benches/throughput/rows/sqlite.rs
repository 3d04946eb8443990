//! One statement of many rows a table and transaction.

use sqlx::{QueryBuilder, Sqlite, SqlitePool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Batch, Row};
use crate::Result;

pub(super) async fn write(pool: SqlitePool, batches: Vec<Batch>) -> Result<()> {
    let mut connection = pool.acquire().await?;
    for batch in &batches {
        let begin = "BEGIN IMMEDIATE";
        let mut transaction = sqlx::Connection::begin_with(&mut *connection, begin).await?;
        let mut statements = Vec::new();
        if !batch.admitted.is_empty() {
            statements.extend([keys(&batch.admitted), runs(&batch.admitted)]);
        }
        if !batch.merged.is_empty() {
            statements.extend([merges(&batch.merged), merged(&batch.merged)]);
        }
        if !batch.refused.is_empty() {
            statements.push(refusals(&batch.refused));
        }
        for mut statement in statements {
            statement.build().execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
    }
    Ok(())
}

fn keys(rows: &[Row]) -> QueryBuilder<Sqlite> {
    let mut insert = QueryBuilder::new(
        "INSERT INTO wake_keys (organization_id, idempotency_key, run_id, requested_at) ",
    );
    insert.push_values(rows, |mut values, row| {
        values
            .push_bind(row.organization.clone())
            .push_bind(row.key.clone())
            .push_bind(row.id.hyphenated())
            .push_bind(micros(row.at));
    });
    insert
}

fn runs(rows: &[Row]) -> QueryBuilder<Sqlite> {
    let mut insert = QueryBuilder::new(
        "INSERT INTO runs (id, organization_id, project_id, agent_profile_id, idempotency_key, \
         payload, task_id, actor_id, requested_at, decided_at, reason, producer, actor_type) ",
    );
    insert.push_values(rows, |mut values, row| {
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

fn merges(merged: &[(Uuid, Row)]) -> QueryBuilder<Sqlite> {
    let mut update = QueryBuilder::new("WITH j (id, payload) AS (");
    update.push_values(merged, |mut values, (run, row)| {
        values.push_bind(run.hyphenated()).push_bind(row.payload.clone());
    });
    update.push(
        ") UPDATE runs SET coalesced_count = coalesced_count + 1, payload = j.payload FROM j \
         WHERE runs.id = j.id AND runs.status = 'queued'",
    );
    update
}

fn merged(merged: &[(Uuid, Row)]) -> QueryBuilder<Sqlite> {
    let mut insert = QueryBuilder::new(
        "INSERT INTO merged_wakes (wake_id, run_id, organization_id, idempotency_key, \
         requested_at, decided_at, payload, actor_type, actor_id) ",
    );
    insert.push_values(merged, |mut values, (run, row)| {
        values
            .push_bind(row.id.hyphenated())
            .push_bind(run.hyphenated())
            .push_bind(row.organization.clone())
            .push_bind(row.key.clone())
            .push_bind(micros(row.at))
            .push_bind(micros(row.at))
            .push_bind(row.payload.clone())
            .push_bind("agent")
            .push_bind(row.actor.clone());
    });
    insert
}

fn refusals(rows: &[Row]) -> QueryBuilder<Sqlite> {
    let mut insert = QueryBuilder::new(
        "INSERT INTO refused_wakes (wake_id, organization_id, task_id, reason, record, \
         requested_at) ",
    );
    insert.push_values(rows, |mut values, row| {
        values
            .push_bind(row.id.hyphenated())
            .push_bind(row.organization.clone())
            .push_bind(row.task.clone())
            .push_bind("allowance_exhausted")
            .push_bind(row.payload.clone())
            .push_bind(micros(row.at));
    });
    insert
}

fn micros(at: OffsetDateTime) -> i64 {
    i64::try_from(at.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX)
}
