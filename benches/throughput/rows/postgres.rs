//! One statement a table and transaction, values as arrays.
//!
//! Arrays become rows in the SELECT list, as in the worker: in FROM, PostgreSQL keeps each as a table of
//! its own first, and the same insert takes about a third longer.

use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Batch, Row};
use crate::Result;

pub(super) async fn write(pool: PgPool, batches: Vec<Batch>) -> Result<()> {
    let mut connection = pool.acquire().await?;
    for batch in &batches {
        let mut transaction = sqlx::Connection::begin(&mut *connection).await?;
        // Not even an empty statement where there is nothing to write.
        if !batch.admitted.is_empty() {
            keys(&mut transaction, &batch.admitted).await?;
            runs(&mut transaction, &batch.admitted).await?;
        }
        if !batch.merged.is_empty() {
            merges(&mut transaction, &batch.merged).await?;
        }
        if !batch.refused.is_empty() {
            refusals(&mut transaction, &batch.refused).await?;
        }
        transaction.commit().await?;
    }
    Ok(())
}

fn texts<'a>(rows: &[&'a Row], of: fn(&Row) -> &str) -> Vec<&'a str> {
    rows.iter().map(|&row| of(row)).collect()
}

fn times(rows: &[&Row]) -> Vec<OffsetDateTime> {
    rows.iter().map(|row| row.at).collect()
}

fn ids(rows: &[&Row]) -> Vec<Uuid> {
    rows.iter().map(|row| row.id).collect()
}

async fn keys(connection: &mut PgConnection, rows: &[Row]) -> Result<()> {
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by_key(|row| (&row.organization, &row.key));
    sqlx::query(
        "INSERT INTO wake_keys (organization_id, idempotency_key, run_id, requested_at) \
         SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::uuid[]), \
         unnest($4::timestamptz[])",
    )
    .bind(texts(&rows, |row| &row.organization))
    .bind(texts(&rows, |row| &row.key))
    .bind(ids(&rows))
    .bind(times(&rows))
    .execute(connection)
    .await?;
    Ok(())
}

async fn runs(connection: &mut PgConnection, rows: &[Row]) -> Result<()> {
    let rows: Vec<&Row> = rows.iter().collect();
    sqlx::query(
        "INSERT INTO runs (id, organization_id, project_id, agent_profile_id, idempotency_key, \
         payload, task_id, actor_id, requested_at, decided_at, reason, producer, actor_type) \
         SELECT unnest($1::uuid[]), unnest($2::text[]), unnest($3::text[]), unnest($4::text[]), \
         unnest($5::text[]), unnest($6::text[]), unnest($7::text[]), unnest($8::text[]), \
         unnest($9::timestamptz[]), unnest($9::timestamptz[]), \
         'task_assigned', 'task_mutation', 'agent'",
    )
    .bind(ids(&rows))
    .bind(texts(&rows, |row| &row.organization))
    .bind(texts(&rows, |row| &row.project))
    .bind(texts(&rows, |row| &row.agent))
    .bind(texts(&rows, |row| &row.key))
    .bind(texts(&rows, |row| &row.payload))
    .bind(texts(&rows, |row| &row.task))
    .bind(texts(&rows, |row| &row.actor))
    .bind(times(&rows))
    .execute(connection)
    .await?;
    Ok(())
}

async fn merges(connection: &mut PgConnection, merged: &[(Uuid, Row)]) -> Result<()> {
    let rows: Vec<&Row> = merged.iter().map(|(_, row)| row).collect();
    let runs: Vec<Uuid> = merged.iter().map(|&(run, _)| run).collect();
    sqlx::query(
        "UPDATE runs r SET coalesced_count = coalesced_count + 1, \
         payload = ($2::text[])[array_position($1::uuid[], r.id)] \
         WHERE r.id = ANY ($1::uuid[]) AND r.status = 'queued'",
    )
    .bind(&runs)
    .bind(texts(&rows, |row| &row.payload))
    .execute(&mut *connection)
    .await?;
    sqlx::query(
        "INSERT INTO merged_wakes (wake_id, run_id, organization_id, idempotency_key, \
         requested_at, decided_at, payload, actor_type, actor_id) \
         SELECT unnest($1::uuid[]), unnest($2::uuid[]), unnest($3::text[]), unnest($4::text[]), \
         unnest($5::timestamptz[]), unnest($5::timestamptz[]), unnest($6::text[]), 'agent', \
         unnest($7::text[])",
    )
    .bind(ids(&rows))
    .bind(&runs)
    .bind(texts(&rows, |row| &row.organization))
    .bind(texts(&rows, |row| &row.key))
    .bind(times(&rows))
    .bind(texts(&rows, |row| &row.payload))
    .bind(texts(&rows, |row| &row.actor))
    .execute(connection)
    .await?;
    Ok(())
}

async fn refusals(connection: &mut PgConnection, rows: &[Row]) -> Result<()> {
    let rows: Vec<&Row> = rows.iter().collect();
    sqlx::query(
        "INSERT INTO refused_wakes (wake_id, organization_id, task_id, reason, record, \
         requested_at) SELECT unnest($1::uuid[]), unnest($2::text[]), unnest($3::text[]), \
         'allowance_exhausted', unnest($4::text[]), unnest($5::timestamptz[])",
    )
    .bind(ids(&rows))
    .bind(texts(&rows, |row| &row.organization))
    .bind(texts(&rows, |row| &row.task))
    .bind(texts(&rows, |row| &row.payload))
    .bind(times(&rows))
    .execute(connection)
    .await?;
    Ok(())
}
