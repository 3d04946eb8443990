//! Room: what gate 6 reads, and what a record takes of it.

use sqlx::query;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::super::room::limits_of;
use super::super::{IntakeSpan, RecordError, RoomClaim, RoomQuery, StoreError};
use super::reads::{get, get_instant};
use super::rows::{Prepared, Statement};
use super::session::Sessions;
use super::writes::refused;
use crate::admission::facts::{Drain, Room, Scoped};
use crate::admission::intake::Slot;
use crate::admission::limits::Dimension;
use crate::wake::{OrganizationId, ProjectId};

const WHAT: &str = "the read of room";
const READ_PLATFORM: &str = include_str!("read_room_platform.sql");
static READ_ORGANIZATIONS: Statement = Statement::new(include_str!("read_room_organizations.sql"));
static READ_PROJECTS: Statement = Statement::new(include_str!("read_room_projects.sql"));
static READ_INTAKE: Statement = Statement::new(include_str!("read_room_intake.sql"));
static COUNT_INTAKE: Statement = Statement::new(include_str!("count_intake.sql"));

/// Counters that are read one after the other may be of different moments: the record looks again.
pub(super) async fn read(sessions: &Sessions, asked: &RoomQuery) -> Result<Room, StoreError> {
    let mut room = Room::default();
    platform(&mut room, &sessions.read_plain(WHAT, READ_PLATFORM).await?)?;
    let rows = sessions
        .read(WHAT, &READ_ORGANIZATIONS, &asked.organizations, bind_organization, None)
        .await?;
    organizations(&mut room, &rows, &asked.organizations)?;
    let of_crowded: Vec<_> = asked
        .projects
        .iter()
        .filter(|(organization, _)| {
            let queued = room.queued_organizations.get(organization).copied().unwrap_or(0);
            let own = room.limits.get(organization);
            asked.sparing.is_none_or(|sparing| sparing.is_crowded(queued, own))
        })
        .cloned()
        .collect();
    let rows = sessions.read(WHAT, &READ_PROJECTS, &of_crowded, bind_project, None).await?;
    projects(&mut room, &rows, &of_crowded)?;
    let rows = sessions.read(WHAT, &READ_INTAKE, &asked.intake, bind_span, None).await?;
    intake(&mut room, &rows, &asked.intake)?;
    Ok(room)
}

/// Counts what a batch admits, and holds what is there now, the batch included, against the limits
/// that it was decided under. Nobody else writes meanwhile.
pub(super) async fn take(
    connection: &mut SqliteConnection,
    claim: &RoomClaim,
) -> Result<(), RecordError> {
    let admitted: Vec<_> = claim.admitted().collect();
    let mut left = admitted.as_slice();
    while !left.is_empty() {
        let (query, later) = COUNT_INTAKE.over(left, |query, admitted| {
            query
                .bind(admitted.organization_id.shared())
                .bind(admitted.producer.as_str())
                .bind(admitted.slot.start().micros())
                .bind(i64::try_from(admitted.wakes).unwrap_or(i64::MAX))
        });
        query.execute(&mut *connection).await.map_err(|error| refused(&error))?;
        left = later;
    }
    if !claim.is_enforced() {
        return Ok(());
    }
    let mut room = Room::default();
    let rows = query(READ_PLATFORM).fetch_all(&mut *connection).await;
    platform(&mut room, &rows.map_err(|error| refused(&error))?)?;
    let asked: Vec<_> =
        claim.organizations().map(|(organization, ..)| organization.clone()).collect();
    let rows = within(connection, &READ_ORGANIZATIONS, &asked, bind_organization).await?;
    organizations(&mut room, &rows, &asked)?;
    let asked = claim.crowded_projects(&room);
    let rows = within(connection, &READ_PROJECTS, &asked, bind_project).await?;
    projects(&mut room, &rows, &asked)?;
    let asked = claim.spans();
    let rows = within(connection, &READ_INTAKE, &asked, bind_span).await?;
    intake(&mut room, &rows, &asked)?;
    match claim.exceeded(&room) {
        Some(boundary) => Err(RecordError::RoomTaken { boundary }),
        None => Ok(()),
    }
}

/// Rows of a read within a transaction.
async fn within<T: Sync>(
    connection: &mut SqliteConnection,
    statement: &Statement,
    items: &[T],
    bind: fn(Prepared, i64, &T) -> Prepared,
) -> Result<Vec<SqliteRow>, RecordError> {
    let (mut all, mut position, mut left) = (Vec::new(), 0, items);
    while !left.is_empty() {
        let (query, later) = statement.over(left, |query, item| {
            position += 1;
            bind(query, position - 1, item)
        });
        left = later;
        all.extend(query.fetch_all(&mut *connection).await.map_err(|error| refused(&error))?);
    }
    Ok(all)
}

fn bind_organization(query: Prepared, position: i64, organization: &OrganizationId) -> Prepared {
    query.bind(position).bind(organization.shared())
}

fn bind_project(query: Prepared, position: i64, project: &Scoped<ProjectId>) -> Prepared {
    query.bind(position).bind(project.0.shared()).bind(project.1.shared())
}

fn bind_span(query: Prepared, position: i64, span: &IntakeSpan) -> Prepared {
    query
        .bind(position)
        .bind(span.organization_id.shared())
        .bind(span.producer.as_str())
        .bind(span.first.start().micros())
        .bind(span.last.start().micros())
}

fn platform(room: &mut Room, rows: &[SqliteRow]) -> Result<(), StoreError> {
    if let Some(row) = rows.first() {
        room.queued_platform = depth(row)?;
        room.drains.extend(drain(row)?.map(|drain| (None, drain)));
    }
    Ok(())
}

fn organizations(
    room: &mut Room,
    rows: &[SqliteRow],
    asked: &[OrganizationId],
) -> Result<(), StoreError> {
    for row in rows {
        let organization = at(asked, row)?;
        if let Some(depth) = get::<Option<i64>>(row, "depth")? {
            let depth = u64::try_from(depth).unwrap_or(0);
            room.queued_organizations.insert(organization.clone(), depth);
            let organization = Some(organization.clone());
            room.drains.extend(drain(row)?.map(|drain| (organization, drain)));
        }
        let limits = Dimension::of_organizations().filter_map(Dimension::column);
        let limits = limits.map(|column| get(row, column)).collect::<Result<Vec<_>, _>>()?;
        if limits.iter().any(Option::is_some) {
            room.limits.insert(organization.clone(), limits_of(&limits));
        }
    }
    Ok(())
}

fn projects(
    room: &mut Room,
    rows: &[SqliteRow],
    asked: &[Scoped<ProjectId>],
) -> Result<(), StoreError> {
    for row in rows {
        room.queued_projects.insert(at(asked, row)?.clone(), depth(row)?);
    }
    Ok(())
}

fn intake(room: &mut Room, rows: &[SqliteRow], asked: &[IntakeSpan]) -> Result<(), StoreError> {
    for row in rows {
        let span = at(asked, row)?;
        let producer = (span.organization_id.clone(), span.producer);
        let slot = Slot::of(get_instant(row, "slot_at")?);
        room.intake.entry(producer).or_default().add(slot, depth(row)?);
    }
    Ok(())
}

fn drain(row: &SqliteRow) -> Result<Option<Drain>, StoreError> {
    Ok(Drain::of(get(row, "drained")?, get(row, "millis")?))
}

fn depth(row: &SqliteRow) -> Result<u64, StoreError> {
    Ok(u64::try_from(get::<i64>(row, "depth")?).unwrap_or(0))
}

fn at<'a, T>(request: &'a [T], row: &SqliteRow) -> Result<&'a T, StoreError> {
    let position: i64 = get(row, "position")?;
    usize::try_from(position).ok().and_then(|index| request.get(index)).ok_or_else(|| {
        StoreError::Unavailable { error: format!("the database answered position {position}") }
    })
}
