//! A claim: one transaction that takes the write lock first, and as many rounds as there are runs to
//! be had.

use sqlx::sqlite::{Sqlite, SqliteConnection, SqliteRow};
use sqlx::{Connection as _, Transaction, query};

use super::super::super::control::unknown;
use super::super::super::options::with_grace;
use super::super::super::queue::{
    CLAIM_ORGANIZATIONS_MAX, ClaimRequest, ClaimedRun, EXPIRED_BY_CLAIM_MAX, Given,
};
use super::super::super::{StoreError, fault};
use super::super::reads::{get, get_id, get_instant};
use super::super::rows::Prepared;
use super::super::session::{Failure, Sessions, classify};
use super::{later, natural, organization};
use crate::wake::RunId;

pub(super) async fn claim(
    sessions: &Sessions,
    request: &ClaimRequest,
) -> Result<Vec<ClaimedRun>, StoreError> {
    let deadline = sessions.record_deadline();
    match tokio::time::timeout(with_grace(deadline), Box::pin(attempt(sessions, request))).await {
        Ok(answer) => answer,
        Err(_) => Err(Failure::TooSlow("a claim", deadline).into()),
    }
}

async fn attempt(
    sessions: &Sessions,
    request: &ClaimRequest,
) -> Result<Vec<ClaimedRun>, StoreError> {
    let mut lease = sessions.lease_writer().await?;
    let answer = match lease.begin_with("BEGIN IMMEDIATE").await {
        Ok(mut transaction) => match take(&mut transaction, request).await {
            Ok(runs) => transaction.commit().await.map(|()| runs).map_err(|error| classify(&error)),
            Err(error) => Err(error),
        },
        Err(error) => Err(classify(&error)),
    };
    match &answer {
        // SQLite itself may have ended the transaction, and the client would not know.
        Err(StoreError::Unavailable { .. }) => drop(lease),
        _ => {
            if answer.is_ok() || lease.ping().await.is_ok() {
                lease.give_back();
            }
        }
    }
    answer
}

async fn rows(
    connection: &mut SqliteConnection,
    query: Prepared,
) -> Result<Vec<SqliteRow>, StoreError> {
    query.fetch_all(connection).await.map_err(|error| classify(&error))
}

async fn take(
    transaction: &mut Transaction<'_, Sqlite>,
    request: &ClaimRequest,
) -> Result<Vec<ClaimedRun>, StoreError> {
    let connection = &mut **transaction;
    let before = query(include_str!("claimed.sql")).bind(request.claim_id.hyphenated());
    let before = rows(connection, before).await?;
    if !before.is_empty() {
        let mut given = Given::default();
        for row in &before {
            given.add(get(row, "queue_rank")?, claimed(row)?, true);
        }
        return Ok(given.in_order());
    }
    let slots = rows(connection, query(include_str!("slots.sql"))).await?;
    let slots = slots.first().ok_or_else(|| unknown("the queue has its row"))?;
    if get(slots, "paused")? {
        return Ok(Vec::new());
    }
    let free = u64::from(request.platform_active_max).saturating_sub(natural(slots, "active")?);
    let free = free.min(u64::from(request.runs_max));
    let mut expired = 0;
    let mut runs = Vec::new();
    while (runs.len() as u64) < free {
        let Some(run) = next(connection, request).await? else { break };
        let expire = query(include_str!("expire_head.sql"))
            .bind(run.uuid().hyphenated())
            .bind(request.now.micros());
        if expired < EXPIRED_BY_CLAIM_MAX && !rows(connection, expire).await?.is_empty() {
            expired += 1;
            continue;
        }
        let claim = query(include_str!("claim_head.sql"))
            .bind(run.uuid().hyphenated())
            .bind(request.now.micros())
            .bind(request.lease_until.micros())
            .bind(request.runner.shared())
            .bind(request.claim_id.hyphenated());
        // The first of those that wait too long, after as many as one claim may end.
        let Some(row) = rows(connection, claim).await?.into_iter().next() else { break };
        runs.push(claimed(&row)?);
    }
    Ok(runs)
}

/// The run whose turn it is.
async fn next(
    connection: &mut SqliteConnection,
    request: &ClaimRequest,
) -> Result<Option<RunId>, StoreError> {
    let active_max = i64::from(request.organization_active_max);
    let mut startable = Vec::new();
    if request.organizations.is_empty() {
        let all = query(include_str!("next_organization.sql")).bind(active_max);
        startable.extend(rows(connection, all).await?);
    }
    for of in request.organizations.iter().take(CLAIM_ORGANIZATIONS_MAX) {
        let one = query(include_str!("startable_organization.sql"));
        startable.extend(rows(connection, one.bind(of.shared()).bind(active_max)).await?);
    }
    let mut first: Option<(i64, i64, String)> = None;
    for row in &startable {
        let turn = (get(row, "share")?, get(row, "served")?, get(row, "organization_id")?);
        if first.as_ref().is_none_or(|first| turn < *first) {
            first = Some(turn);
        }
    }
    let Some((_, _, of)) = first else { return Ok(None) };
    let head = rows(connection, query(include_str!("next_run.sql")).bind(of)).await?;
    head.first().map(|row| get_id(row, "id")).transpose()
}

fn claimed(row: &SqliteRow) -> Result<ClaimedRun, StoreError> {
    let absent = || fault::unavailable(&sqlx::Error::RowNotFound);
    Ok(ClaimedRun {
        run_id: get_id(row, "id")?,
        fencing_token: natural(row, "fencing_token")?,
        lease_expires_at: later(row, "lease_expires_at")?.ok_or_else(absent)?,
        claimed_at: later(row, "claimed_at")?.ok_or_else(absent)?,
        organization_id: organization(row)?,
        project_id: get(row, "project_id")?,
        agent_profile_id: get(row, "agent_profile_id")?,
        reason: get(row, "reason")?,
        payload: get(row, "payload")?,
        task_id: get(row, "task_id")?,
        actor_type: get(row, "actor_type")?,
        actor_id: get(row, "actor_id")?,
        idempotency_key: get(row, "idempotency_key")?,
        coalesced_count: u32::try_from(get::<i64>(row, "coalesced_count")?).unwrap_or(1),
        producer: get(row, "producer")?,
        traceparent: get(row, "traceparent")?,
        requested_at: get_instant(row, "requested_at")?,
    })
}
