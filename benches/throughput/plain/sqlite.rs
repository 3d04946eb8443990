//! One event on SQLite. There is one writer, so a lane that decides keeps the others waiting.

use sqlx::{Row as _, SqliteConnection, SqlitePool};
use time::OffsetDateTime;
use uuid::fmt::Hyphenated;

use super::{Verdict, Wake};
use crate::Result;
use wakegate::admission::{ALLOWANCE_WAKES_MAX, ALLOWANCE_WINDOW, COALESCE_WINDOW};

/// See [`super::postgres`], also for the gates that each reads for.
const STANDING: &str = "\
SELECT EXISTS (SELECT 1 FROM agents WHERE organization_id = $1 AND agent_profile_id = $2 \
               AND status IN ('paused', 'stopped', 'pending_approval')) \
    OR EXISTS (SELECT 1 FROM pauses WHERE released_at IS NULL \
               AND scope = 'platform' AND organization_id = '') \
    OR EXISTS (SELECT 1 FROM pauses WHERE released_at IS NULL \
               AND scope = 'organization' AND organization_id = $1) AS held, \
    EXISTS (SELECT 1 FROM wake_keys WHERE organization_id = $1 AND idempotency_key = $3) AS seen";
const QUEUED: &str = "\
SELECT id FROM mergeable_runs \
WHERE organization_id = $1 AND task_id = $2 AND agent_profile_id = $3 \
    AND reason = 'task_assigned' AND requested_at > $4 AND requested_at <= $5 \
ORDER BY requested_at DESC, id DESC LIMIT 1";
const COUNTED: &str = "\
SELECT count(*) FROM counted_runs \
WHERE organization_id = $1 AND task_id = $2 AND requested_at > $3 AND requested_at <= $4";
/// One statement holds one insert here, so an admission is two, a merge three.
const KEY: &str = "\
INSERT INTO wake_keys (organization_id, idempotency_key, run_id, requested_at) \
VALUES ($1, $2, $3, $4)";
const RUN: &str = "\
INSERT INTO runs (id, organization_id, project_id, agent_profile_id, reason, producer, \
    actor_type, actor_id, task_id, idempotency_key, payload, requested_at) \
VALUES ($1, $2, $3, $4, 'task_assigned', 'task_mutation', 'agent', $5, $7, $6, $8, $9)";
const JOIN: &str = "\
UPDATE runs SET coalesced_count = coalesced_count + 1, payload = $2 \
WHERE id = $1 AND status = 'queued'";
const MERGED: &str = "\
INSERT INTO merged_wakes (wake_id, run_id, organization_id, idempotency_key, payload, \
    actor_type, actor_id, requested_at) \
VALUES ($1, $2, $3, $4, $5, 'agent', $6, $7)";
const REFUSE: &str = "\
INSERT INTO refused_wakes (wake_id, organization_id, task_id, reason, record, requested_at) \
VALUES ($1, $2, $3, 'allowance_exhausted', $4, $5)";

pub(super) async fn decide(pool: &SqlitePool, wake: &Wake) -> Result<()> {
    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
    match read(&mut transaction, wake).await? {
        Verdict::Seen => {}
        Verdict::Admit => admit(&mut transaction, wake).await?,
        Verdict::Merge(run) => merge(&mut transaction, wake, run.hyphenated()).await?,
        Verdict::Refuse => refuse(&mut transaction, wake).await?,
    }
    Ok(transaction.commit().await?)
}

async fn read(connection: &mut SqliteConnection, wake: &Wake) -> Result<Verdict> {
    let mutation = &wake.mutation;
    let standing = sqlx::query(STANDING)
        .bind(&mutation.organization_id)
        .bind(&mutation.new_assignee_agent_profile_id)
        .bind(&wake.key)
        .fetch_one(&mut *connection)
        .await?;
    if standing.try_get("held")? {
        return Ok(Verdict::Refuse);
    }
    if standing.try_get("seen")? {
        return Ok(Verdict::Seen);
    }
    let queued: Option<Hyphenated> = sqlx::query_scalar(QUEUED)
        .bind(&mutation.organization_id)
        .bind(&mutation.task_id)
        .bind(&mutation.new_assignee_agent_profile_id)
        .bind(micros(wake.at - COALESCE_WINDOW))
        .bind(micros(wake.at))
        .fetch_optional(&mut *connection)
        .await?;
    if let Some(run) = queued {
        return Ok(Verdict::Merge(run.into_uuid()));
    }
    let counted: i64 = sqlx::query_scalar(COUNTED)
        .bind(&mutation.organization_id)
        .bind(&mutation.task_id)
        .bind(micros(wake.at - ALLOWANCE_WINDOW))
        .bind(micros(wake.at))
        .fetch_one(connection)
        .await?;
    let spent = counted >= i64::from(ALLOWANCE_WAKES_MAX);
    Ok(if spent { Verdict::Refuse } else { Verdict::Admit })
}

async fn know(connection: &mut SqliteConnection, wake: &Wake, run: Hyphenated) -> Result<()> {
    sqlx::query(KEY)
        .bind(&wake.mutation.organization_id)
        .bind(&wake.key)
        .bind(run)
        .bind(micros(wake.at))
        .execute(connection)
        .await?;
    Ok(())
}

async fn admit(connection: &mut SqliteConnection, wake: &Wake) -> Result<()> {
    let mutation = &wake.mutation;
    know(connection, wake, wake.id.hyphenated()).await?;
    sqlx::query(RUN)
        .bind(wake.id.hyphenated())
        .bind(&mutation.organization_id)
        .bind(&mutation.project_id)
        .bind(&mutation.new_assignee_agent_profile_id)
        .bind(&mutation.acting_agent_id)
        .bind(&wake.key)
        .bind(&mutation.task_id)
        .bind(&wake.payload)
        .bind(micros(wake.at))
        .execute(connection)
        .await?;
    Ok(())
}

async fn merge(connection: &mut SqliteConnection, wake: &Wake, run: Hyphenated) -> Result<()> {
    know(connection, wake, run).await?;
    sqlx::query(JOIN).bind(run).bind(&wake.payload).execute(&mut *connection).await?;
    sqlx::query(MERGED)
        .bind(wake.id.hyphenated())
        .bind(run)
        .bind(&wake.mutation.organization_id)
        .bind(&wake.key)
        .bind(&wake.payload)
        .bind(&wake.mutation.acting_agent_id)
        .bind(micros(wake.at))
        .execute(connection)
        .await?;
    Ok(())
}

async fn refuse(connection: &mut SqliteConnection, wake: &Wake) -> Result<()> {
    sqlx::query(REFUSE)
        .bind(wake.id.hyphenated())
        .bind(&wake.mutation.organization_id)
        .bind(&wake.mutation.task_id)
        .bind(&wake.payload)
        .bind(micros(wake.at))
        .execute(connection)
        .await?;
    Ok(())
}

/// Since the epoch.
fn micros(at: OffsetDateTime) -> i64 {
    i64::try_from(at.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX)
}
