//! What the gates read: one statement a gate, over arrays; rows come back by position, so that no
//! id is parsed again.

use std::collections::HashMap;

use sqlx::postgres::PgRow;
use sqlx::{Row as _, query};
use uuid::Uuid;

use super::super::distinct::distinct;
use super::super::sightings::{Sighting, see};
use super::super::{CountWindow, StoreError, fault};
use super::session::{Prepared, Sessions};
use super::timestamp::Timestamp;
use crate::admission::decision::{DegradedReason, PriorOutcome};
use crate::admission::facts::{
    AgentStatus, CountedRuns, KeySightings, MergeBucket, Pauses, QueuedRuns, Scoped,
};
use crate::admission::{ALLOWANCE_WINDOW, COALESCE_WINDOW};
use crate::wake::{
    ActorType, AgentId, IdempotencyKey, OrganizationId, RunId, UtcMicros, Wake, WakeId,
};

pub(super) const READ_AGENTS: &str = include_str!("read_agents.sql");
pub(super) const READ_PAUSES: &str = include_str!("read_pauses.sql");
pub(super) const READ_KEYS: &str = include_str!("read_keys.sql");
pub(super) const READ_QUEUED_TASKED: &str = include_str!("read_queued_tasked.sql");
pub(super) const READ_COUNTED: &str = include_str!("read_counted.sql");

/// A column, or the fault of a schema that is not the one this program knows.
pub(super) fn get<'r, T>(row: &'r PgRow, column: &str) -> Result<T, StoreError>
where
    T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    row.try_get(column).map_err(|error| fault::unavailable(&error))
}

pub(super) fn get_id(row: &PgRow, column: &str) -> Result<RunId, StoreError> {
    get::<Uuid>(row, column).map(RunId::from)
}

pub(super) fn get_instant(row: &PgRow, column: &str) -> Result<UtcMicros, StoreError> {
    get::<Timestamp>(row, column).map(|at| at.0)
}

/// The element of the request that a row answers; subscripts count from 1.
fn asked<'a, T>(row: &PgRow, request: &[&'a T]) -> Result<&'a T, StoreError> {
    let position: i32 = get(row, "position")?;
    usize::try_from(position - 1).ok().and_then(|index| request.get(index).copied()).ok_or_else(
        || StoreError::Unavailable { error: format!("the database answered position {position}") },
    )
}

pub(super) async fn identity(
    sessions: &Sessions,
    wakes: &[WakeId],
) -> Result<HashMap<WakeId, PriorOutcome>, StoreError> {
    if wakes.is_empty() {
        return Ok(HashMap::new());
    }
    let ids = ids(wakes);
    let rows = sessions
        .read("the read of identity", || query(include_str!("read_identity.sql")).bind(ids.clone()))
        .await?;
    rows.iter().map(|row| Ok((get_id(row, "wake_id")?, prior(row)?))).collect()
}

pub(super) fn ids(wakes: &[WakeId]) -> Vec<Uuid> {
    distinct(wakes).into_iter().map(|wake| wake.uuid()).collect()
}

fn prior(row: &PgRow) -> Result<PriorOutcome, StoreError> {
    Ok(match get(row, "kind")? {
        "queued" => PriorOutcome::Queued {
            degraded: get::<Option<&str>>(row, "reason")?.and_then(DegradedReason::parse),
            requested_at: get_instant(row, "requested_at")?,
            decided_at: get_instant(row, "decided_at")?,
        },
        "coalesced" => PriorOutcome::Coalesced {
            run_id: get_id(row, "run_id")?,
            requested_at: get_instant(row, "requested_at")?,
            decided_at: get_instant(row, "decided_at")?,
        },
        _ => PriorOutcome::Refused { reason: get(row, "reason")?, record: get(row, "record")? },
    })
}

pub(super) async fn agents(
    sessions: &Sessions,
    agents: &[Scoped<AgentId>],
) -> Result<HashMap<Scoped<AgentId>, AgentStatus>, StoreError> {
    if agents.is_empty() {
        return Ok(HashMap::new());
    }
    let agents = distinct(agents);
    let rows =
        sessions.read("the read of agents", || bind_agents(query(READ_AGENTS), &agents)).await?;
    agents_of(&rows, &agents)
}

pub(super) fn bind_agents(statement: Prepared, agents: &[&Scoped<AgentId>]) -> Prepared {
    let (organizations, ids): (Vec<&str>, Vec<&str>) =
        agents.iter().map(|(org, agent)| (org.as_str(), agent.as_str())).unzip();
    statement.bind(organizations).bind(ids)
}

pub(super) fn agents_of<'r>(
    rows: impl IntoIterator<Item = &'r PgRow>,
    agents: &[&Scoped<AgentId>],
) -> Result<HashMap<Scoped<AgentId>, AgentStatus>, StoreError> {
    rows.into_iter()
        .map(|row| {
            let status = get(row, "status")?;
            let status = AgentStatus::parse(status).ok_or_else(|| StoreError::Unavailable {
                error: "an agent has a status that this program does not know".to_owned(),
            })?;
            Ok((asked(row, agents)?.clone(), status))
        })
        .collect()
}

pub(super) async fn pauses(
    sessions: &Sessions,
    organizations: &[OrganizationId],
) -> Result<Pauses, StoreError> {
    let organizations = distinct(organizations);
    let rows = sessions
        .read("the read of pauses", || bind_pauses(query(READ_PAUSES), &organizations))
        .await?;
    pauses_of(&rows, &organizations)
}

pub(super) fn bind_pauses(statement: Prepared, organizations: &[&OrganizationId]) -> Prepared {
    let names: Vec<&str> = organizations.iter().map(|organization| organization.as_str()).collect();
    statement.bind(names)
}

pub(super) fn pauses_of<'r>(
    rows: impl IntoIterator<Item = &'r PgRow>,
    organizations: &[&OrganizationId],
) -> Result<Pauses, StoreError> {
    let mut pauses = Pauses::default();
    for row in rows {
        let id: String = get(row, "pause_id")?;
        if get::<i32>(row, "position")? == 0 {
            pauses.platform = Some(id);
        } else {
            pauses.organizations.insert(asked(row, organizations)?.clone(), id);
        }
    }
    Ok(pauses)
}

pub(super) async fn keys(
    sessions: &Sessions,
    keys: &[Scoped<IdempotencyKey>],
) -> Result<HashMap<Scoped<IdempotencyKey>, KeySightings>, StoreError> {
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let keys = distinct(keys);
    let rows = sessions.read("the read of keys", || bind_keys(query(READ_KEYS), &keys)).await?;
    keys_of(&rows, &keys)
}

pub(super) fn bind_keys(statement: Prepared, keys: &[&Scoped<IdempotencyKey>]) -> Prepared {
    let (organizations, names): (Vec<&str>, Vec<&str>) =
        keys.iter().map(|(org, key)| (org.as_str(), key.as_str())).unzip();
    statement.bind(organizations).bind(names)
}

pub(super) fn keys_of<'r>(
    rows: impl IntoIterator<Item = &'r PgRow>,
    keys: &[&Scoped<IdempotencyKey>],
) -> Result<HashMap<Scoped<IdempotencyKey>, KeySightings>, StoreError> {
    let mut seen = HashMap::new();
    for row in rows {
        let key = asked(row, keys)?;
        let run_id = get_id(row, "run_id")?;
        let at = get_instant(row, "requested_at")?;
        see(&mut seen, key, &Sighting { first: true, run_id, at });
        if let Some(run_id) = get::<Option<Uuid>>(row, "merged_run_id")? {
            let at = get_instant(row, "merged_at")?;
            see(&mut seen, key, &Sighting { first: false, run_id: run_id.into(), at });
        }
    }
    Ok(seen)
}

/// A bucket, and the request instant of the wake that would join a run of it.
pub(super) type Asked = (MergeBucket, UtcMicros);

/// Wakes that name a task and wakes that name none are looked up in an index each.
pub(super) async fn queued(sessions: &Sessions, wakes: &[&Wake]) -> Result<QueuedRuns, StoreError> {
    let asked_for = merging(wakes);
    let (tasked, taskless) = by_index(&asked_for);
    let mut queued = QueuedRuns::default();
    if !tasked.is_empty() {
        let statement = || bind_tasks(bind_queued(query(READ_QUEUED_TASKED), &tasked), &tasked);
        let rows = sessions.read("the read of queued runs", statement).await?;
        add_queued(&mut queued, &rows, &tasked)?;
    }
    if !taskless.is_empty() {
        let statement = || bind_queued(query(include_str!("read_queued_taskless.sql")), &taskless);
        let rows = sessions.read("the read of queued runs", statement).await?;
        add_queued(&mut queued, &rows, &taskless)?;
    }
    Ok(queued)
}

pub(super) fn merging(wakes: &[&Wake]) -> Vec<Asked> {
    wakes.iter().filter_map(|wake| Some((MergeBucket::of(wake)?, wake.requested_at))).collect()
}

/// Those that name a task, and those that name none.
pub(super) fn by_index(asked_for: &[Asked]) -> (Vec<&Asked>, Vec<&Asked>) {
    distinct(asked_for).into_iter().partition(|(bucket, _)| bucket.task_id.is_some())
}

/// Buckets that all name a task, or none of which does.
pub(super) fn bind_queued(statement: Prepared, asked_for: &[&Asked]) -> Prepared {
    let column = |value: fn(&MergeBucket) -> &str| -> Vec<&str> {
        asked_for.iter().map(|(bucket, _)| value(bucket)).collect()
    };
    let until: Vec<Timestamp> = asked_for.iter().map(|(_, at)| Timestamp(*at)).collect();
    let after: Vec<Timestamp> =
        asked_for.iter().map(|(_, at)| Timestamp(*at - COALESCE_WINDOW)).collect();
    statement
        .bind(column(|bucket| bucket.organization_id.as_str()))
        .bind(column(|bucket| bucket.agent_profile_id.as_str()))
        .bind(column(|bucket| bucket.reason.as_str()))
        .bind(after)
        .bind(until)
}

/// What the statement over those that name a task asks besides.
pub(super) fn bind_tasks(statement: Prepared, asked_for: &[&Asked]) -> Prepared {
    let tasks = asked_for.iter().filter_map(|(bucket, _)| Some(bucket.task_id.as_ref()?.as_str()));
    statement.bind(tasks.collect::<Vec<_>>())
}

pub(super) fn add_queued<'r>(
    queued: &mut QueuedRuns,
    rows: impl IntoIterator<Item = &'r PgRow>,
    asked_for: &[&Asked],
) -> Result<(), StoreError> {
    for row in rows {
        let (bucket, _) = asked(row, asked_for)?;
        let (requested_at, id) = (get_instant(row, "requested_at")?, get_id(row, "run_id")?);
        let actor_type = get::<Option<&str>>(row, "actor_type")?
            .and_then(|actor_type| ActorType::parse(actor_type).ok());
        queued.add(bucket.clone(), requested_at, id, actor_type);
    }
    Ok(())
}

pub(super) async fn counted(
    sessions: &Sessions,
    windows: &[CountWindow],
    runs_max: u32,
) -> Result<CountedRuns, StoreError> {
    if windows.is_empty() {
        return Ok(CountedRuns::default());
    }
    let windows = distinct(windows);
    let statement = || bind_counted(query(READ_COUNTED), &windows, runs_max);
    let rows = sessions.read("the read of counted runs", statement).await?;
    counted_of(&rows, &windows)
}

pub(super) fn bind_counted(
    statement: Prepared,
    windows: &[&CountWindow],
    runs_max: u32,
) -> Prepared {
    let (organizations, tasks): (Vec<&str>, Vec<&str>) = windows
        .iter()
        .map(|window| (window.organization_id.as_str(), window.task_id.as_str()))
        .unzip();
    let (after, until): (Vec<Timestamp>, Vec<Timestamp>) = windows
        .iter()
        .map(|window| (Timestamp(window.at - ALLOWANCE_WINDOW), Timestamp(window.at)))
        .unzip();
    statement.bind(organizations).bind(tasks).bind(after).bind(until).bind(i64::from(runs_max))
}

pub(super) fn counted_of<'r>(
    rows: impl IntoIterator<Item = &'r PgRow>,
    windows: &[&CountWindow],
) -> Result<CountedRuns, StoreError> {
    let mut counted = CountedRuns::default();
    for row in rows {
        let window = asked(row, windows)?;
        let run = (get_instant(row, "requested_at")?, get_id(row, "run_id")?);
        let task = (window.organization_id.clone(), window.task_id.clone());
        counted.by_task.entry(task).or_default().insert(run);
    }
    Ok(counted)
}
