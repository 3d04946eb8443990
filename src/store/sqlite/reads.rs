//! What the gates read: one statement a gate and a few hundred wakes; rows come back by position,
//! so that no id is parsed again.

use std::collections::HashMap;

use sqlx::Row as _;
use sqlx::sqlite::{Sqlite, SqliteRow};
use uuid::fmt::Hyphenated;

use super::super::distinct::distinct;
use super::super::sightings::{Sighting, see};
use super::super::{CountWindow, StoreError, fault};
use super::rows::Statement;
use super::session::Sessions;
use crate::admission::decision::{DegradedReason, PriorOutcome};
use crate::admission::facts::{
    AgentStatus, CountedRuns, KeySightings, MergeBucket, Pauses, QueuedRuns, Scoped,
};
use crate::admission::{ALLOWANCE_WINDOW, COALESCE_WINDOW};
use crate::wake::{
    ActorType, AgentId, IdempotencyKey, OrganizationId, RunId, UtcMicros, Wake, WakeId,
};

static READ_IDENTITY: Statement = Statement::new(include_str!("read_identity.sql"));
static READ_AGENTS: Statement = Statement::new(include_str!("read_agents.sql"));
static READ_PAUSES: Statement = Statement::new(include_str!("read_pauses.sql"));
static READ_KEYS: Statement = Statement::new(include_str!("read_keys.sql"));
static READ_QUEUED_TASKED: Statement = Statement::new(include_str!("read_queued_tasked.sql"));
static READ_QUEUED_TASKLESS: Statement = Statement::new(include_str!("read_queued_taskless.sql"));
static READ_COUNTED: Statement = Statement::new(include_str!("read_counted.sql"));

/// A column, or the fault of a schema that is not the one this program knows.
pub(super) fn get<'r, T>(row: &'r SqliteRow, column: &str) -> Result<T, StoreError>
where
    T: sqlx::Decode<'r, Sqlite> + sqlx::Type<Sqlite>,
{
    row.try_get(column).map_err(|error| fault::unavailable(&error))
}

pub(super) fn get_id(row: &SqliteRow, column: &str) -> Result<RunId, StoreError> {
    get::<Hyphenated>(row, column).map(|id| RunId::from(id.into_uuid()))
}

pub(super) fn get_instant(row: &SqliteRow, column: &str) -> Result<UtcMicros, StoreError> {
    get(row, column).map(UtcMicros::from_micros)
}

/// The element of the request that a row answers.
fn asked<'a, T>(row: &SqliteRow, request: &[&'a T]) -> Result<&'a T, StoreError> {
    let position: i64 = get(row, "position")?;
    usize::try_from(position).ok().and_then(|index| request.get(index).copied()).ok_or_else(|| {
        StoreError::Unavailable { error: format!("the database answered position {position}") }
    })
}

pub(super) async fn identity(
    sessions: &Sessions,
    wakes: &[WakeId],
) -> Result<HashMap<WakeId, PriorOutcome>, StoreError> {
    let wakes = distinct(wakes);
    let rows = sessions
        .read(
            "the read of identity",
            &READ_IDENTITY,
            &wakes,
            |query, _, wake| query.bind(wake.uuid().hyphenated()),
            None,
        )
        .await?;
    rows.iter().map(|row| Ok((get_id(row, "wake_id")?, prior(row)?))).collect()
}

fn prior(row: &SqliteRow) -> Result<PriorOutcome, StoreError> {
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
    let agents = distinct(agents);
    let rows = sessions
        .read(
            "the read of agents",
            &READ_AGENTS,
            &agents,
            |query, position, (organization, agent)| {
                query.bind(position).bind(organization.shared()).bind(agent.shared())
            },
            None,
        )
        .await?;
    rows.iter()
        .map(|row| {
            let status = get(row, "status")?;
            let status = AgentStatus::parse(status).ok_or_else(|| StoreError::Unavailable {
                error: "an agent has a status that this program does not know".to_owned(),
            })?;
            Ok((asked(row, &agents)?.clone(), status))
        })
        .collect()
}

pub(super) async fn pauses(
    sessions: &Sessions,
    organizations: &[OrganizationId],
) -> Result<Pauses, StoreError> {
    let organizations = distinct(organizations);
    let mut pauses = Pauses::default();
    let platform =
        sessions.read_plain("the read of pauses", include_str!("read_platform_pause.sql")).await?;
    if let Some(row) = platform.first() {
        pauses.platform = Some(get(row, "id")?);
    }
    let rows = sessions
        .read(
            "the read of pauses",
            &READ_PAUSES,
            &organizations,
            |query, position, organization| query.bind(position).bind(organization.shared()),
            None,
        )
        .await?;
    for row in &rows {
        pauses.organizations.insert(asked(row, &organizations)?.clone(), get(row, "id")?);
    }
    Ok(pauses)
}

pub(super) async fn keys(
    sessions: &Sessions,
    keys: &[Scoped<IdempotencyKey>],
) -> Result<HashMap<Scoped<IdempotencyKey>, KeySightings>, StoreError> {
    let keys = distinct(keys);
    let rows = sessions
        .read(
            "the read of keys",
            &READ_KEYS,
            &keys,
            |query, position, (organization, key)| {
                query.bind(position).bind(organization.shared()).bind(key.shared())
            },
            None,
        )
        .await?;
    let mut seen = HashMap::new();
    for row in &rows {
        let key = asked(row, &keys)?;
        let run_id = get_id(row, "run_id")?;
        let at = get_instant(row, "requested_at")?;
        see(&mut seen, key, &Sighting { first: true, run_id, at });
        if let Some(run_id) = get::<Option<Hyphenated>>(row, "merged_run_id")? {
            let run_id = RunId::from(run_id.into_uuid());
            let at = get_instant(row, "merged_at")?;
            see(&mut seen, key, &Sighting { first: false, run_id, at });
        }
    }
    Ok(seen)
}

/// A bucket, and the request instant of the wake that would join a run of it.
type Asked = (MergeBucket, UtcMicros);

/// Wakes that name a task and wakes that name none are looked up in an index each.
pub(super) async fn queued(sessions: &Sessions, wakes: &[&Wake]) -> Result<QueuedRuns, StoreError> {
    let asked_for: Vec<Asked> =
        wakes.iter().filter_map(|wake| Some((MergeBucket::of(wake)?, wake.requested_at))).collect();
    let (tasked, taskless): (Vec<_>, Vec<_>) =
        distinct(&asked_for).into_iter().partition(|(bucket, _)| bucket.task_id.is_some());
    let what = "the read of queued runs";
    let mut queued = QueuedRuns::default();
    for (asked_for, text) in [(tasked, &READ_QUEUED_TASKED), (taskless, &READ_QUEUED_TASKLESS)] {
        let rows = sessions
            .read(
                what,
                text,
                &asked_for,
                |query, position, (bucket, at)| {
                    let query = query
                        .bind(position)
                        .bind(bucket.organization_id.shared())
                        .bind(bucket.agent_profile_id.shared())
                        .bind(bucket.reason.shared());
                    let query = match &bucket.task_id {
                        Some(task) => query.bind(task.shared()),
                        None => query,
                    };
                    query.bind((*at - COALESCE_WINDOW).micros()).bind(at.micros())
                },
                None,
            )
            .await?;
        for row in &rows {
            let (bucket, _) = asked(row, &asked_for)?;
            let (requested_at, id) = (get_instant(row, "requested_at")?, get_id(row, "id")?);
            let actor_type = get::<Option<&str>>(row, "actor_type")?
                .and_then(|actor_type| ActorType::parse(actor_type).ok());
            queued.add(bucket.clone(), requested_at, id, actor_type);
        }
    }
    Ok(queued)
}

pub(super) async fn counted(
    sessions: &Sessions,
    windows: &[CountWindow],
    runs_max: u32,
) -> Result<CountedRuns, StoreError> {
    let windows = distinct(windows);
    let rows = sessions
        .read(
            "the read of counted runs",
            &READ_COUNTED,
            &windows,
            |query, position, window| {
                query
                    .bind(position)
                    .bind(window.organization_id.shared())
                    .bind(window.task_id.shared())
                    .bind((window.at - ALLOWANCE_WINDOW).micros())
                    .bind(window.at.micros())
            },
            Some(i64::from(runs_max)),
        )
        .await?;
    let mut counted = CountedRuns::default();
    for row in &rows {
        let window = asked(row, &windows)?;
        let run = (get_instant(row, "requested_at")?, get_id(row, "id")?);
        let task = (window.organization_id.clone(), window.task_id.clone());
        counted.by_task.entry(task).or_default().insert(run);
    }
    Ok(counted)
}
