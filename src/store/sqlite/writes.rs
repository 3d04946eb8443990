//! What is written: a batch's one transaction, the lane's cursor, and attempts at a wake alone.

use std::collections::HashSet;

use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row as _, query};

use super::super::options::with_grace;
use super::super::queue::people;
use super::super::{
    BatchRecord, LaneCursor, LaneKey, MergedRun, MergedWake, NewKey, NewRun, RecordError, Recorded,
    RefusedWake, StoreError, fault,
};
use super::room;
use super::rows::{Prepared, Statement, bind_merged_payload, bind_run_payload};
use super::session::{Failure, Sessions, classify, is_taken};
use super::shadowed;
use crate::admission::decision::DegradedReason;
use crate::wake::{IdempotencyKey, ProjectId, RunId, TaskId, UtcMicros, WakeId};

static INSERT_KEYS: Statement = Statement::new(include_str!("insert_keys.sql"));
static INSERT_RUNS: Statement = Statement::new(include_str!("insert_runs.sql"));
static MERGE_RUNS: Statement = Statement::new(include_str!("merge_runs.sql"));
static INSERT_MERGED: Statement = Statement::new(include_str!("insert_merged.sql"));
static INSERT_REFUSED: Statement = Statement::new(include_str!("insert_refused.sql"));

impl From<Failure> for RecordError {
    fn from(failure: Failure) -> Self {
        Self::Store(failure.into())
    }
}

pub(super) fn refused(error: &sqlx::Error) -> RecordError {
    RecordError::Store(classify(error))
}

fn sequence(sequence: u64) -> Result<i64, StoreError> {
    i64::try_from(sequence).map_err(|_| fault::too_large("a sequence of the stream"))
}

/// Reads the cursor first: a lane is started once, and read at every hand-over.
pub(super) async fn lane_cursor(
    sessions: &Sessions,
    lane: &LaneKey,
) -> Result<LaneCursor, StoreError> {
    let read = || {
        query(include_str!("read_lane.sql"))
            .bind(lane.stream.to_string())
            .bind(i64::from(lane.lane))
    };
    let start = || {
        query(include_str!("start_lane.sql"))
            .bind(lane.stream.to_string())
            .bind(i64::from(lane.lane))
            .bind(lane.stream_created_at.micros())
    };
    for statement in [&read as &(dyn Fn() -> Prepared + Send + Sync), &start, &read] {
        for row in sessions.write("the lane's cursor", statement()).await? {
            let created_at: i64 =
                row.try_get("stream_created_at").map_err(|error| fault::unavailable(&error))?;
            if created_at == lane.stream_created_at.micros() {
                return cursor(&row).map_err(|error| fault::unavailable(&error));
            }
        }
    }
    Err(StoreError::Unavailable {
        error: "the lane's stream is being created anew by another worker".to_owned(),
    })
}

fn cursor(row: &SqliteRow) -> Result<LaneCursor, sqlx::Error> {
    let decided: i64 = row.try_get("decided_sequence")?;
    let known: i64 = row.try_get("known_sequence")?;
    Ok(LaneCursor {
        decided_sequence: u64::try_from(decided).unwrap_or(0),
        decided_instant: UtcMicros::from_micros(row.try_get("decided_instant")?),
        known_sequence: u64::try_from(known).unwrap_or(0),
    })
}

/// In one transaction, or nothing. A commit whose answer was lost leaves open whether it happened, and
/// the wakes' own ids tell at the next reading.
pub(super) async fn record(
    sessions: &Sessions,
    batch: &BatchRecord,
) -> Result<Recorded, RecordError> {
    let deadline = sessions.record_deadline();
    match tokio::time::timeout(
        with_grace(deadline),
        Box::pin(sessions.group().record(sessions, batch)),
    )
    .await
    {
        Ok(Ok(())) => Ok(Recorded::after_commit(batch.covers.clone())),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(Failure::TooSlow("the record", deadline).into()),
    }
}

/// Writes a batch within a transaction. With one writer at a time the order of the statements is that
/// of PostgreSQL only so that both name the same race.
pub(super) async fn write(
    connection: &mut SqliteConnection,
    batch: &BatchRecord,
) -> Result<(), RecordError> {
    if !fence(connection, batch).await? {
        return Err(RecordError::LaneLost);
    }
    execute(connection, &INSERT_KEYS, &batch.keys, bind_key, "a key").await?;
    let what = "the id of a merged wake";
    execute(connection, &INSERT_MERGED, &batch.merged_wakes, bind_merged, what).await?;
    let what = "the id of a refused wake";
    execute(connection, &INSERT_REFUSED, &batch.refusals, bind_refused, what).await?;
    let what = "the id of a shadowed wake";
    execute(connection, &shadowed::INSERT, &batch.shadowed, shadowed::bind, what).await?;
    let awaited = people::awaited(batch);
    let bind = |query: Prepared, merge: &MergedRun| bind_merge(query, merge, &awaited);
    execute(connection, &MERGE_RUNS, &batch.merges, bind, "a run that was queued").await?;
    let bind = |query: Prepared, run: &NewRun| bind_run(query, run, &awaited);
    execute(connection, &INSERT_RUNS, &batch.runs, bind, "the id of a run").await?;
    match &batch.room {
        Some(claim) => room::take(connection, claim).await,
        None => Ok(()),
    }
}

/// Whether the fence was where the batch expects it. See [`BatchRecord::moves_or_writes`].
async fn fence(
    connection: &mut SqliteConnection,
    batch: &BatchRecord,
) -> Result<bool, RecordError> {
    let at_lane = |fence: Prepared, decided: i64| {
        fence
            .bind(batch.lane.stream.to_string())
            .bind(i64::from(batch.lane.lane))
            .bind(batch.lane.stream_created_at.micros())
            .bind(decided)
    };
    let from = sequence(batch.from.decided_sequence)?;
    if !batch.moves_or_writes() {
        let check = at_lane(query(include_str!("check_fence.sql")), from);
        let row = check.fetch_optional(connection).await.map_err(|error| refused(&error))?;
        return Ok(row.is_some());
    }
    let to = query(include_str!("move_fence.sql"))
        .bind(sequence(batch.to.decided_sequence)?)
        .bind(batch.to.decided_instant.micros());
    let moved = at_lane(to, from).execute(connection).await.map_err(|error| refused(&error))?;
    Ok(moved.rows_affected() == 1)
}

/// Writes a row for each item, or loses the race for `what`: each of these tables has one unique
/// key.
async fn execute<T: Sync>(
    connection: &mut SqliteConnection,
    statement: &Statement,
    items: &[T],
    bind: impl Fn(Prepared, &T) -> Prepared,
    what: &'static str,
) -> Result<(), RecordError> {
    let mut left = items;
    while !left.is_empty() {
        let (query, later) = statement.over(left, &bind);
        let done = query.execute(&mut *connection).await.map_err(|error| {
            if is_taken(&error) { RecordError::RaceLost { what } } else { refused(&error) }
        })?;
        if done.rows_affected() != (left.len() - later.len()) as u64 {
            return Err(RecordError::RaceLost { what });
        }
        left = later;
    }
    Ok(())
}

fn bind_key(query: Prepared, key: &NewKey) -> Prepared {
    query
        .bind(key.organization_id.shared())
        .bind(key.idempotency_key.shared())
        .bind(key.run_id.uuid().hyphenated())
        .bind(key.requested_at.micros())
}

fn bind_run(query: Prepared, run: &NewRun, awaited: &HashSet<RunId>) -> Prepared {
    let wake = &run.wake;
    let query = query
        .bind(wake.id.uuid().hyphenated())
        .bind(wake.organization_id.shared())
        .bind(wake.project_id.as_ref().map(ProjectId::shared))
        .bind(wake.agent_profile_id.shared())
        .bind(wake.reason.shared())
        .bind(wake.occurrence.key().map(IdempotencyKey::shared))
        .bind(i64::from(run.coalesced_count))
        .bind(run.degraded.map(DegradedReason::as_str))
        .bind(wake.producer.shared())
        .bind(wake.traceparent.clone())
        .bind(wake.requested_at.micros())
        .bind(run.decided_at.micros())
        .bind(run.expires_at.map(UtcMicros::micros));
    let hidden = people::is_nobody(run.payload.actor_type()) && awaited.contains(&wake.id);
    bind_run_payload(query, &run.payload).bind(hidden.then_some(people::HUMAN))
}

fn bind_merge(query: Prepared, merge: &MergedRun, awaited: &HashSet<RunId>) -> Prepared {
    let query = query
        .bind(merge.run_id.uuid().hyphenated())
        .bind(i64::from(merge.joined))
        .bind(awaited.contains(&merge.run_id));
    bind_run_payload(query, &merge.payload)
}

fn bind_merged(query: Prepared, merged: &MergedWake) -> Prepared {
    let wake = &merged.wake;
    let query = query
        .bind(wake.id.uuid().hyphenated())
        .bind(merged.run_id.uuid().hyphenated())
        .bind(wake.organization_id.shared())
        .bind(wake.occurrence.key().map(IdempotencyKey::shared))
        .bind(wake.requested_at.micros())
        .bind(merged.decided_at.micros());
    bind_merged_payload(query, &wake.payload)
}

fn bind_refused(query: Prepared, refused: &RefusedWake) -> Prepared {
    query
        .bind(refused.wake.id.uuid().hyphenated())
        .bind(refused.wake.organization_id.shared())
        .bind(refused.wake.payload.task().task().map(TaskId::shared))
        .bind(refused.reason)
        .bind(refused.record.clone())
        .bind(refused.wake.requested_at.micros())
}

pub(super) async fn begin_isolated(
    sessions: &Sessions,
    lane: &LaneKey,
    wake: WakeId,
) -> Result<u32, StoreError> {
    let begin = query(include_str!("begin_isolated.sql"))
        .bind(wake.uuid().hyphenated())
        .bind(lane.stream.to_string())
        .bind(i64::from(lane.lane));
    let rows = sessions.write("the note of an attempt", begin).await?;
    let before: i64 = rows
        .first()
        .ok_or(sqlx::Error::RowNotFound)
        .and_then(|row| row.try_get(0))
        .map_err(|error| fault::unavailable(&error))?;
    Ok(u32::try_from(before).unwrap_or(0))
}

/// Only the lane's owner notes attempts, so the two statements need no transaction.
pub(super) async fn end_isolated(sessions: &Sessions, wake: WakeId) -> Result<(), StoreError> {
    let fewer = query(include_str!("end_isolated.sql")).bind(wake.uuid().hyphenated());
    let last = query(include_str!("end_isolated_last.sql")).bind(wake.uuid().hyphenated());
    let what = "the end of an attempt";
    if sessions.write(what, fewer).await?.is_empty() {
        sessions.write(what, last).await?;
    }
    Ok(())
}
