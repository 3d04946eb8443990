//! One event on PostgreSQL.

use sqlx::{PgConnection, PgPool, Row as _};
use uuid::Uuid;

use super::{Verdict, Wake};
use crate::Result;
use wakegate::admission::{ALLOWANCE_WAKES_MAX, ALLOWANCE_WINDOW, COALESCE_WINDOW};

/// Gates 1 to 3 in one look: whether agent or organization is held up, and whether the key is known.
const STANDING: &str = "\
SELECT EXISTS (SELECT FROM agents WHERE organization_id = $1 AND agent_profile_id = $2 \
               AND status IN ('paused', 'stopped', 'pending_approval')) \
    OR EXISTS (SELECT FROM pauses WHERE released_at IS NULL \
               AND scope = 'platform' AND organization_id = '') \
    OR EXISTS (SELECT FROM pauses WHERE released_at IS NULL \
               AND scope = 'organization' AND organization_id = $1) AS held, \
    EXISTS (SELECT FROM wake_keys WHERE organization_id = $1 AND idempotency_key = $3) AS seen";
/// Gate 4.
const QUEUED: &str = "\
SELECT id FROM mergeable_runs \
WHERE organization_id = $1 AND task_id = $2 AND agent_profile_id = $3 \
    AND reason = 'task_assigned' AND requested_at > $4 AND requested_at <= $5 \
ORDER BY requested_at DESC, id DESC LIMIT 1";
/// Gate 5.
const COUNTED: &str = "\
SELECT count(*) FROM counted_runs \
WHERE organization_id = $1 AND task_id = $2 AND requested_at > $3 AND requested_at <= $4";
/// Gate 7. A key that another lane has just taken admits nothing.
const ADMIT: &str = "\
WITH taken AS (
    INSERT INTO wake_keys (organization_id, idempotency_key, run_id, requested_at) \
    VALUES ($2, $6, $1, $9) ON CONFLICT DO NOTHING RETURNING run_id) \
INSERT INTO runs (id, organization_id, project_id, agent_profile_id, reason, producer, \
    actor_type, actor_id, task_id, idempotency_key, payload, requested_at) \
SELECT $1, $2, $3, $4, 'task_assigned', 'task_mutation', 'agent', $5, $7, $6, $8, $9 \
FROM taken";
const MERGE: &str = "\
WITH joined AS (
    UPDATE runs SET coalesced_count = coalesced_count + 1, payload = $5 \
    WHERE id = $2 AND status = 'queued' RETURNING id), \
known AS (
    INSERT INTO wake_keys (organization_id, idempotency_key, run_id, requested_at) \
    SELECT $3, $4, id, $6 FROM joined ON CONFLICT DO NOTHING) \
INSERT INTO merged_wakes (wake_id, run_id, organization_id, idempotency_key, payload, \
    actor_type, actor_id, requested_at) \
SELECT $1, id, $3, $4, $5, 'agent', $7, $6 FROM joined";
const REFUSE: &str = "\
INSERT INTO refused_wakes (wake_id, organization_id, task_id, reason, record, requested_at) \
VALUES ($1, $2, $3, 'allowance_exhausted', $4, $5) ON CONFLICT DO NOTHING";

pub(super) async fn decide(pool: &PgPool, wake: &Wake) -> Result<()> {
    let mut transaction = pool.begin().await?;
    match read(&mut transaction, wake).await? {
        Verdict::Seen => {}
        Verdict::Admit => admit(&mut transaction, wake).await?,
        Verdict::Merge(run) => merge(&mut transaction, wake, run).await?,
        Verdict::Refuse => refuse(&mut transaction, wake).await?,
    }
    Ok(transaction.commit().await?)
}

async fn read(connection: &mut PgConnection, wake: &Wake) -> Result<Verdict> {
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
    let queued: Option<Uuid> = sqlx::query_scalar(QUEUED)
        .bind(&mutation.organization_id)
        .bind(&mutation.task_id)
        .bind(&mutation.new_assignee_agent_profile_id)
        .bind(wake.at - COALESCE_WINDOW)
        .bind(wake.at)
        .fetch_optional(&mut *connection)
        .await?;
    if let Some(run) = queued {
        return Ok(Verdict::Merge(run));
    }
    let counted: i64 = sqlx::query_scalar(COUNTED)
        .bind(&mutation.organization_id)
        .bind(&mutation.task_id)
        .bind(wake.at - ALLOWANCE_WINDOW)
        .bind(wake.at)
        .fetch_one(connection)
        .await?;
    let spent = counted >= i64::from(ALLOWANCE_WAKES_MAX);
    Ok(if spent { Verdict::Refuse } else { Verdict::Admit })
}

async fn admit(connection: &mut PgConnection, wake: &Wake) -> Result<()> {
    let mutation = &wake.mutation;
    sqlx::query(ADMIT)
        .bind(wake.id)
        .bind(&mutation.organization_id)
        .bind(&mutation.project_id)
        .bind(&mutation.new_assignee_agent_profile_id)
        .bind(&mutation.acting_agent_id)
        .bind(&wake.key)
        .bind(&mutation.task_id)
        .bind(&wake.payload)
        .bind(wake.at)
        .execute(connection)
        .await?;
    Ok(())
}

async fn merge(connection: &mut PgConnection, wake: &Wake, run: Uuid) -> Result<()> {
    sqlx::query(MERGE)
        .bind(wake.id)
        .bind(run)
        .bind(&wake.mutation.organization_id)
        .bind(&wake.key)
        .bind(&wake.payload)
        .bind(wake.at)
        .bind(&wake.mutation.acting_agent_id)
        .execute(connection)
        .await?;
    Ok(())
}

async fn refuse(connection: &mut PgConnection, wake: &Wake) -> Result<()> {
    sqlx::query(REFUSE)
        .bind(wake.id)
        .bind(&wake.mutation.organization_id)
        .bind(&wake.mutation.task_id)
        .bind(&wake.payload)
        .bind(wake.at)
        .execute(connection)
        .await?;
    Ok(())
}
