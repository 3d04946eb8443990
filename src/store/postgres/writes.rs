//! What is written: a batch's one transaction, the lane's cursor, and attempts at a wake alone.

use sqlx::{Row as _, query};
use uuid::Uuid;

use super::super::options::with_grace;
use super::super::queue::people;
use super::super::{
    BatchRecord, LaneCursor, LaneKey, MergedRun, MergedWake, NewKey, NewRun, RecordError, Recorded,
    RefusedWake, StoreError, fault, lease,
};
use super::columns::PayloadColumns;
use super::room;
use super::session::{Failure, Prepared, Sessions, classify, durable, settle};
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
    let Some(answer) = error.as_database_error() else {
        return RecordError::Store(classify(error));
    };
    if let Some(boundary) = room::taken(answer) {
        return RecordError::RoomTaken { boundary };
    }
    match answer.code().as_deref() {
        Some("40001" | "40P01") => RecordError::RaceLost { what: "a lock" },
        // What the statement itself raises.
        Some("WGR02") => RecordError::LaneLost,
        Some("WGR03") => RecordError::RaceLost { what: "a run that was queued" },
        Some("WGR04") => RecordError::RaceLost { what: "a row" },
        // Each of these tables has one unique key.
        Some("23505") => match answer.table() {
            Some("wake_keys") => RecordError::RaceLost { what: "a key" },
            Some("merged_wakes") => RecordError::RaceLost { what: "the id of a merged wake" },
            Some("refused_wakes") => RecordError::RaceLost { what: "the id of a refused wake" },
            Some("shadowed_wakes") => RecordError::RaceLost { what: "the id of a shadowed wake" },
            Some("runs") => RecordError::RaceLost { what: "the id of a run" },
            _ => RecordError::Store(classify(error)),
        },
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

/// A batch is one statement and so one transaction: whatever fails undoes all of it. The queue's lock is
/// held within its commit, and let go before the log is on disk where others record meanwhile.
async fn attempt(sessions: &Sessions, batch: &BatchRecord) -> Result<(), RecordError> {
    let mut dead_max = sessions.write_connections();
    let mut was_sent = false;
    let recording = sessions.begin_record();
    // With nobody to wait for its lock, one answer is awaited instead of two.
    let in_one = recording.is_alone && batch.moves_or_writes();
    loop {
        let mut lease = sessions.lease_for_write().await?;
        let statement = statement(batch, in_one)?;
        let rows = if in_one {
            statement.fetch_all(&mut *lease).await
        } else {
            durable(&mut lease, statement).await
        };
        let lost = match settle(lease, rows) {
            Ok(rows) if !rows.is_empty() => return Ok(()),
            // The fence of a batch that writes nothing.
            Ok(_) => RecordError::LaneLost,
            // A server that was restarted leaves a pool full of them; but it may have written before
            // the connection broke.
            Err(error) if lease::is_broken(&error) && dead_max > 0 => {
                dead_max -= 1;
                was_sent = true;
                continue;
            }
            Err(error) => refused(&error),
        };
        return Err(match lost {
            // Moved by somebody else, or by what was sent before: the cursor tells.
            RecordError::LaneLost if was_sent => StoreError::Unavailable {
                error: "the connection broke, and it is not known what was written".to_owned(),
            }
            .into(),
            lost => lost,
        });
    }
}

/// The whole of a batch, and whether its commit waits for the disk; arguments in the order of the text.
/// See [`BatchRecord::moves_or_writes`].
fn statement(batch: &BatchRecord, waits: bool) -> Result<Prepared, StoreError> {
    let text = if batch.moves_or_writes() {
        include_str!("record.sql")
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
    let mut statement =
        fence.bind(sequence(batch.to.decided_sequence)?).bind(Timestamp(batch.to.decided_instant));
    statement = bind_keys(statement, batch);
    statement = bind_merged(statement, batch);
    statement = bind_refused(statement, batch);
    statement = shadowed::bind(statement, batch);
    statement = bind_merges(statement, batch)?;
    statement = bind_runs(statement, batch)?;
    Ok(room::bind(statement, batch.room.as_ref()).bind(waits))
}

fn bind_keys(statement: Prepared, batch: &BatchRecord) -> Prepared {
    let mut keys: Vec<&NewKey> = batch.keys.iter().collect();
    keys.sort_by_key(|key| (&key.organization_id, &key.idempotency_key));
    let (organizations, names): (Vec<&str>, Vec<&str>) =
        keys.iter().map(|key| (key.organization_id.as_str(), key.idempotency_key.as_str())).unzip();
    let (runs, at): (Vec<Uuid>, Vec<Timestamp>) =
        keys.iter().map(|key| (key.run_id.uuid(), Timestamp(key.requested_at))).unzip();
    statement.bind(organizations).bind(names).bind(runs).bind(at)
}

fn bind_runs(statement: Prepared, batch: &BatchRecord) -> Result<Prepared, StoreError> {
    let mut runs: Vec<&NewRun> = batch.runs.iter().collect();
    runs.sort_by_key(|run| (&run.wake.organization_id, run.wake.occurrence.key(), run.wake.id));
    let wakes = || runs.iter().map(|run| &run.wake);
    let counts =
        runs.iter().map(|run| count(run.coalesced_count)).collect::<Result<Vec<_>, _>>()?;
    let statement = statement
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
        .bind_run(statement)
        .bind(runs.iter().map(kept).collect::<Vec<_>>()))
}

fn bind_merges(statement: Prepared, batch: &BatchRecord) -> Result<Prepared, StoreError> {
    let mut merges: Vec<&MergedRun> = batch.merges.iter().collect();
    merges.sort_by_key(|merge| merge.run_id);
    let joined = merges.iter().map(|merge| count(merge.joined)).collect::<Result<Vec<_>, _>>()?;
    let statement = statement
        .bind(merges.iter().map(|merge| merge.run_id.uuid()).collect::<Vec<_>>())
        .bind(joined);
    let awaited = people::awaited(batch);
    Ok(PayloadColumns::of(merges.iter().map(|merge| &merge.payload))
        .bind_run(statement)
        .bind(merges.iter().map(|merge| awaited.contains(&merge.run_id)).collect::<Vec<_>>()))
}

fn bind_merged(statement: Prepared, batch: &BatchRecord) -> Prepared {
    let mut merged: Vec<&MergedWake> = batch.merged_wakes.iter().collect();
    merged.sort_by_key(|merged| merged.wake.id);
    let wakes = || merged.iter().map(|merged| &merged.wake);
    let statement = statement
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
    PayloadColumns::of(wakes().map(|wake| &wake.payload)).bind_merged(statement)
}

fn bind_refused(statement: Prepared, batch: &BatchRecord) -> Prepared {
    let mut refusals: Vec<&RefusedWake> = batch.refusals.iter().collect();
    refusals.sort_by_key(|refused| refused.wake.id);
    let wakes = || refusals.iter().map(|refused| &refused.wake);
    statement
        .bind(wakes().map(|wake| wake.id.uuid()).collect::<Vec<_>>())
        .bind(wakes().map(|wake| wake.organization_id.as_str()).collect::<Vec<_>>())
        .bind(
            wakes().map(|wake| wake.payload.task().task().map(TaskId::as_str)).collect::<Vec<_>>(),
        )
        .bind(refusals.iter().map(|refused| refused.reason).collect::<Vec<_>>())
        .bind(refusals.iter().map(|refused| refused.record.as_str()).collect::<Vec<_>>())
        .bind(wakes().map(|wake| Timestamp(wake.requested_at)).collect::<Vec<_>>())
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
