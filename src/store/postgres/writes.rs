//! What is written: a batch's one transaction, the lane's cursor, and attempts at a wake alone.

use sqlx::postgres::Postgres;
use sqlx::{Connection as _, Row as _, Transaction, query};
use uuid::Uuid;

use super::super::options::with_grace;
use super::super::queue::people;
use super::super::{
    BatchRecord, LaneCursor, LaneKey, MergedRun, MergedWake, NewKey, NewRun, RecordError, Recorded,
    RefusedWake, StoreError, fault, lease,
};
use super::columns::PayloadColumns;
use super::room;
use super::session::{Failure, Prepared, Sessions, classify, execute, flush, sqlstate};
use super::shadowed;
use super::timestamp::Timestamp;
use crate::admission::decision::DegradedReason;
use crate::wake::{IdempotencyKey, ProjectId, TaskId, WakeId};

impl From<Failure> for RecordError {
    fn from(failure: Failure) -> Self {
        Self::Store(failure.into())
    }
}

/// A deadlock or a serialization failure is a lost race: all of it is undone, and it may be tried
/// again at once.
fn refused(error: &sqlx::Error) -> RecordError {
    if let Some(boundary) = error.as_database_error().and_then(room::taken) {
        return RecordError::RoomTaken { boundary };
    }
    match sqlstate(error).as_deref() {
        Some("40001" | "40P01") => RecordError::RaceLost { what: "a lock" },
        _ => RecordError::Store(classify(error)),
    }
}

fn sequence(sequence: u64) -> Result<i64, StoreError> {
    i64::try_from(sequence).map_err(|_| fault::too_large("a sequence of the stream"))
}

fn lane_number(lane: &LaneKey) -> Result<i32, StoreError> {
    i32::try_from(lane.lane).map_err(|_| fault::too_large("the number of a lane"))
}

fn count(count: u32) -> Result<i32, StoreError> {
    i32::try_from(count).map_err(|_| fault::too_large("a count of merged wakes"))
}

/// Reads the cursor first: a lane is started once, and read at every hand-over.
pub(super) async fn lane_cursor(
    sessions: &Sessions,
    lane: &LaneKey,
) -> Result<LaneCursor, StoreError> {
    let number = lane_number(lane)?;
    let read = || query(include_str!("read_lane.sql")).bind(lane.stream.to_string()).bind(number);
    let start = || {
        query(include_str!("start_lane.sql"))
            .bind(lane.stream.to_string())
            .bind(number)
            .bind(Timestamp(lane.stream_created_at))
    };
    for statement in [&read as &(dyn Fn() -> Prepared + Send + Sync), &start, &read] {
        for row in sessions.write("the lane's cursor", statement).await? {
            let created_at: Timestamp =
                row.try_get("stream_created_at").map_err(|error| fault::unavailable(&error))?;
            if created_at.0 == lane.stream_created_at {
                return cursor(&row).map_err(|error| fault::unavailable(&error));
            }
        }
    }
    Err(StoreError::Unavailable {
        error: "the lane's stream is being created anew by another worker".to_owned(),
    })
}

fn cursor(row: &sqlx::postgres::PgRow) -> Result<LaneCursor, sqlx::Error> {
    let decided: i64 = row.try_get("decided_sequence")?;
    let known: i64 = row.try_get("known_sequence")?;
    let instant: Timestamp = row.try_get("decided_instant")?;
    Ok(LaneCursor {
        decided_sequence: u64::try_from(decided).unwrap_or(0),
        decided_instant: instant.0,
        known_sequence: u64::try_from(known).unwrap_or(0),
    })
}

/// One transaction, or nothing. The client's deadline closes the connection, which ends it; a
/// commit whose answer was lost leaves open whether it happened, and the wakes' own ids tell at the
/// next reading.
pub(super) async fn record(
    sessions: &Sessions,
    batch: &BatchRecord,
) -> Result<Recorded, RecordError> {
    let deadline = sessions.record_deadline();
    match tokio::time::timeout(with_grace(deadline), Box::pin(attempt(sessions, batch))).await {
        Ok(Ok(())) => Ok(Recorded::after_commit(batch.covers.clone())),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(Failure::TooSlow("the record", deadline).into()),
    }
}

async fn attempt(sessions: &Sessions, batch: &BatchRecord) -> Result<(), RecordError> {
    let mut dead_max = sessions.write_connections();
    loop {
        let mut lease = sessions.lease_for_write().await?;
        let written = match lease.begin().await {
            Ok(transaction) => match write(transaction, batch).await {
                // After a refusal there is no transaction left that this could commit: it answers
                // Ok also where the server has already aborted.
                Ok(transaction) => transaction.commit().await.map_err(|error| refused(&error)),
                Err(error) => Err(error),
            },
            // Nothing was sent yet, so another connection may be tried.
            Err(error) if lease::is_broken(&error) && dead_max > 0 => {
                dead_max -= 1;
                continue;
            }
            Err(error) => Err(refused(&error)),
        };
        // With the locks gone already.
        let written = match written {
            Ok(()) => flush(&mut lease).await.map_err(|error| refused(&error)),
            Err(error) => Err(error),
        };
        // The ping carries the rollback of a refused transaction, so that its locks are gone when
        // the caller reads again; a connection that does not answer it is closed.
        if written.is_ok() || lease.ping().await.is_ok() {
            lease.give_back();
        }
        return written;
    }
}

/// Writes in the order that every lane keeps, so that lanes cannot deadlock: the fence, keys in
/// order of key, merges in order of id. The queue is locked by the commit, last of all, which brings the
/// runs to it and holds the room that they take against what is there. The first error discards the
/// transaction by value.
async fn write<'t>(
    mut transaction: Transaction<'t, Postgres>,
    batch: &BatchRecord,
) -> Result<Transaction<'t, Postgres>, RecordError> {
    if execute(&mut transaction, fence(batch)?).await.map_err(|error| refused(&error))? != 1 {
        return Err(RecordError::LaneLost);
    }
    let statements = [
        (batch.keys.len(), insert_keys as Statement, "a key"),
        (batch.merged_wakes.len(), insert_merged, "the id of a merged wake"),
        (batch.refusals.len(), insert_refused, "the id of a refused wake"),
        (batch.shadowed.len(), shadowed::insert, "the id of a shadowed wake"),
        (batch.merges.len(), merge_runs, "a run that was queued"),
        (batch.runs.len(), insert_runs, "the id of a run"),
    ];
    for (rows, statement, what) in statements {
        if rows == 0 {
            continue;
        }
        let affected = execute(&mut transaction, statement(batch)?).await;
        let affected = affected.map_err(|error| match sqlstate(&error).as_deref() {
            // Each of these tables has one unique key. The statement was the transaction's last.
            Some("23505") => RecordError::RaceLost { what },
            _ => refused(&error),
        })?;
        if affected != rows as u64 {
            return Err(RecordError::RaceLost { what });
        }
    }
    if let Some(claim) = &batch.room {
        let claimed = execute(&mut transaction, room::claim(claim)).await;
        claimed.map_err(|error| refused(&error))?;
    }
    Ok(transaction)
}

type Statement = fn(&BatchRecord) -> Result<Prepared, StoreError>;

/// See [`BatchRecord::moves_or_writes`].
fn fence(batch: &BatchRecord) -> Result<Prepared, StoreError> {
    let text = if batch.moves_or_writes() {
        include_str!("move_fence.sql")
    } else {
        include_str!("check_fence.sql")
    };
    let fence = query(text)
        .bind(batch.lane.stream.to_string())
        .bind(lane_number(&batch.lane)?)
        .bind(Timestamp(batch.lane.stream_created_at))
        .bind(sequence(batch.from.decided_sequence)?);
    if !batch.moves_or_writes() {
        return Ok(fence);
    }
    Ok(fence.bind(sequence(batch.to.decided_sequence)?).bind(Timestamp(batch.to.decided_instant)))
}

#[expect(clippy::unnecessary_wraps, reason = "a [`Statement`], some of which can fail")]
fn insert_keys(batch: &BatchRecord) -> Result<Prepared, StoreError> {
    let mut keys: Vec<&NewKey> = batch.keys.iter().collect();
    keys.sort_by_key(|key| (&key.organization_id, &key.idempotency_key));
    let (organizations, names): (Vec<&str>, Vec<&str>) =
        keys.iter().map(|key| (key.organization_id.as_str(), key.idempotency_key.as_str())).unzip();
    let (runs, at): (Vec<Uuid>, Vec<Timestamp>) =
        keys.iter().map(|key| (key.run_id.uuid(), Timestamp(key.requested_at))).unzip();
    Ok(query(include_str!("insert_keys.sql")).bind(organizations).bind(names).bind(runs).bind(at))
}

fn insert_runs(batch: &BatchRecord) -> Result<Prepared, StoreError> {
    let mut runs: Vec<&NewRun> = batch.runs.iter().collect();
    runs.sort_by_key(|run| (&run.wake.organization_id, run.wake.occurrence.key(), run.wake.id));
    let wakes = || runs.iter().map(|run| &run.wake);
    let counts =
        runs.iter().map(|run| count(run.coalesced_count)).collect::<Result<Vec<_>, _>>()?;
    let query = query(include_str!("insert_runs.sql"))
        .bind(wakes().map(|wake| wake.id.uuid()).collect::<Vec<_>>())
        .bind(wakes().map(|wake| wake.organization_id.as_str()).collect::<Vec<_>>())
        .bind(
            wakes().map(|wake| wake.project_id.as_ref().map(ProjectId::as_str)).collect::<Vec<_>>(),
        )
        .bind(wakes().map(|wake| wake.agent_profile_id.as_str()).collect::<Vec<_>>())
        .bind(wakes().map(|wake| wake.reason.as_str()).collect::<Vec<_>>())
        .bind(
            wakes()
                .map(|wake| wake.occurrence.key().map(IdempotencyKey::as_str))
                .collect::<Vec<_>>(),
        )
        .bind(counts)
        .bind(runs.iter().map(|run| run.degraded.map(DegradedReason::as_str)).collect::<Vec<_>>())
        .bind(wakes().map(|wake| wake.producer.as_str()).collect::<Vec<_>>())
        .bind(wakes().map(|wake| wake.traceparent.as_deref()).collect::<Vec<_>>())
        .bind(wakes().map(|wake| Timestamp(wake.requested_at)).collect::<Vec<_>>())
        .bind(runs.iter().map(|run| Timestamp(run.decided_at)).collect::<Vec<_>>())
        .bind(runs.iter().map(|run| run.expires_at.map(Timestamp)).collect::<Vec<_>>());
    let awaited = people::awaited(batch);
    let kept = |run: &&NewRun| {
        let hidden = people::is_nobody(run.payload.actor_type()) && awaited.contains(&run.wake.id);
        hidden.then_some(people::HUMAN)
    };
    Ok(PayloadColumns::of(runs.iter().map(|run| &run.payload))
        .bind_run(query)
        .bind(runs.iter().map(kept).collect::<Vec<_>>()))
}

fn merge_runs(batch: &BatchRecord) -> Result<Prepared, StoreError> {
    let mut merges: Vec<&MergedRun> = batch.merges.iter().collect();
    merges.sort_by_key(|merge| merge.run_id);
    let joined = merges.iter().map(|merge| count(merge.joined)).collect::<Result<Vec<_>, _>>()?;
    let query = query(include_str!("merge_runs.sql"))
        .bind(merges.iter().map(|merge| merge.run_id.uuid()).collect::<Vec<_>>())
        .bind(joined);
    let awaited = people::awaited(batch);
    Ok(PayloadColumns::of(merges.iter().map(|merge| &merge.payload))
        .bind_run(query)
        .bind(merges.iter().map(|merge| awaited.contains(&merge.run_id)).collect::<Vec<_>>()))
}

#[expect(clippy::unnecessary_wraps, reason = "a [`Statement`], some of which can fail")]
fn insert_merged(batch: &BatchRecord) -> Result<Prepared, StoreError> {
    let mut merged: Vec<&MergedWake> = batch.merged_wakes.iter().collect();
    merged.sort_by_key(|merged| merged.wake.id);
    let wakes = || merged.iter().map(|merged| &merged.wake);
    let query = query(include_str!("insert_merged.sql"))
        .bind(wakes().map(|wake| wake.id.uuid()).collect::<Vec<_>>())
        .bind(merged.iter().map(|merged| merged.run_id.uuid()).collect::<Vec<_>>())
        .bind(wakes().map(|wake| wake.organization_id.as_str()).collect::<Vec<_>>())
        .bind(
            wakes()
                .map(|wake| wake.occurrence.key().map(IdempotencyKey::as_str))
                .collect::<Vec<_>>(),
        )
        .bind(wakes().map(|wake| Timestamp(wake.requested_at)).collect::<Vec<_>>())
        .bind(merged.iter().map(|merged| Timestamp(merged.decided_at)).collect::<Vec<_>>());
    Ok(PayloadColumns::of(wakes().map(|wake| &wake.payload)).bind_merged(query))
}

#[expect(clippy::unnecessary_wraps, reason = "a [`Statement`], some of which can fail")]
fn insert_refused(batch: &BatchRecord) -> Result<Prepared, StoreError> {
    let mut refusals: Vec<&RefusedWake> = batch.refusals.iter().collect();
    refusals.sort_by_key(|refused| refused.wake.id);
    let wakes = || refusals.iter().map(|refused| &refused.wake);
    Ok(query(include_str!("insert_refused.sql"))
        .bind(wakes().map(|wake| wake.id.uuid()).collect::<Vec<_>>())
        .bind(wakes().map(|wake| wake.organization_id.as_str()).collect::<Vec<_>>())
        .bind(
            wakes().map(|wake| wake.payload.task().task().map(TaskId::as_str)).collect::<Vec<_>>(),
        )
        .bind(refusals.iter().map(|refused| refused.reason).collect::<Vec<_>>())
        .bind(refusals.iter().map(|refused| refused.record.as_str()).collect::<Vec<_>>())
        .bind(wakes().map(|wake| Timestamp(wake.requested_at)).collect::<Vec<_>>()))
}

pub(super) async fn begin_isolated(
    sessions: &Sessions,
    lane: &LaneKey,
    wake: WakeId,
) -> Result<u32, StoreError> {
    let begin = query(include_str!("begin_isolated.sql"))
        .bind(wake.uuid())
        .bind(lane.stream.to_string())
        .bind(lane_number(lane)?);
    let rows = sessions.write_once("the note of an attempt", begin).await?;
    let before: i32 = rows
        .first()
        .ok_or(sqlx::Error::RowNotFound)
        .and_then(|row| row.try_get(0))
        .map_err(|error| fault::unavailable(&error))?;
    Ok(u32::try_from(before).unwrap_or(0))
}

/// Only the lane's owner notes attempts, so the two statements need no transaction.
pub(super) async fn end_isolated(sessions: &Sessions, wake: WakeId) -> Result<(), StoreError> {
    let fewer = query(include_str!("end_isolated.sql")).bind(wake.uuid());
    let last = query(include_str!("end_isolated_last.sql")).bind(wake.uuid());
    // The rows that stay at one or more after this are exactly those that had two.
    let what = "the end of an attempt";
    if sessions.write_once(what, fewer).await?.is_empty() {
        sessions.write_once(what, last).await?;
    }
    Ok(())
}
