//! Room: what gate 6 reads, and what a record takes of it.

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, query};

use super::super::room::limits_of;
use super::super::{RecordError, RoomClaim, RoomQuery, StoreError};
use super::reads::{get, get_instant};
use super::session::{Prepared, Sessions, execute};
use super::timestamp::Timestamp;
use super::writes::refused;
use crate::admission::facts::{Drain, Room};
use crate::admission::intake::Slot;
use crate::wake::OrganizationId;

pub(super) async fn read(sessions: &Sessions, asked: &RoomQuery) -> Result<Room, StoreError> {
    let rows = sessions.read("the read of room", || statement(asked)).await?;
    room(&rows, asked)
}

/// Counts what a batch admits, and holds what is there now, the batch included, against the limits
/// that it was decided under. Under the queue's lock, which the insert of its runs has taken: nobody
/// else counts meanwhile.
pub(super) async fn take(
    connection: &mut PgConnection,
    claim: &RoomClaim,
) -> Result<(), RecordError> {
    execute(connection, count(claim)).await.map_err(|error| refused(&error))?;
    let asked = claim.query();
    let rows = statement(&asked).fetch_all(connection).await.map_err(|error| refused(&error))?;
    match claim.exceeded(&room(&rows, &asked)?) {
        Some(boundary) => Err(RecordError::RoomTaken { boundary }),
        None => Ok(()),
    }
}

fn statement(asked: &RoomQuery) -> Prepared {
    let organizations: Vec<&str> = asked.organizations.iter().map(OrganizationId::as_str).collect();
    let (project_organizations, projects): (Vec<&str>, Vec<&str>) =
        asked.projects.iter().map(|(org, project)| (org.as_str(), project.as_str())).unzip();
    let (intake_organizations, producers): (Vec<&str>, Vec<&str>) = asked
        .intake
        .iter()
        .map(|span| (span.organization_id.as_str(), span.producer.as_str()))
        .unzip();
    let (first, last): (Vec<Timestamp>, Vec<Timestamp>) = asked
        .intake
        .iter()
        .map(|span| (Timestamp(span.first.start()), Timestamp(span.last.start())))
        .unzip();
    query(include_str!("read_room.sql"))
        .bind(organizations)
        .bind(project_organizations)
        .bind(projects)
        .bind(intake_organizations)
        .bind(producers)
        .bind(first)
        .bind(last)
}

fn count(claim: &RoomClaim) -> Prepared {
    let (mut organizations, mut producers) = (Vec::new(), Vec::new());
    let (mut slots, mut admitted) = (Vec::new(), Vec::new());
    for (organization, producer, slot, wakes) in claim.admitted() {
        organizations.push(organization.as_str());
        producers.push(producer.as_str());
        slots.push(Timestamp(slot.start()));
        admitted.push(i64::try_from(wakes).unwrap_or(i64::MAX));
    }
    query(include_str!("count_intake.sql"))
        .bind(organizations)
        .bind(producers)
        .bind(slots)
        .bind(admitted)
}

fn room(rows: &[PgRow], asked: &RoomQuery) -> Result<Room, StoreError> {
    let mut room = Room::default();
    for row in rows {
        let depth = u64::try_from(get::<i64>(row, "depth")?).unwrap_or(0);
        let position = usize::try_from(get::<i32>(row, "position")?).unwrap_or(0).wrapping_sub(1);
        match get(row, "kind")? {
            "platform" => {
                room.queued_platform = depth;
                room.drains.extend(drain(row)?.map(|drain| (None, drain)));
            }
            "organization" => {
                let organization = at(&asked.organizations, position)?;
                room.queued_organizations.insert(organization.clone(), depth);
                let organization = Some(organization.clone());
                room.drains.extend(drain(row)?.map(|drain| (organization, drain)));
            }
            "limits" => {
                let limits: Vec<Option<i64>> = get(row, "limits")?;
                let organization = at(&asked.organizations, position)?.clone();
                room.limits.insert(organization, limits_of(&limits));
            }
            "project" => {
                room.queued_projects.insert(at(&asked.projects, position)?.clone(), depth);
            }
            _ => {
                let span = at(&asked.intake, position)?;
                let producer = (span.organization_id.clone(), span.producer);
                let slot = Slot::of(get_instant(row, "slot_at")?);
                room.intake.entry(producer).or_default().add(slot, depth);
            }
        }
    }
    Ok(room)
}

fn drain(row: &PgRow) -> Result<Option<Drain>, StoreError> {
    Ok(Drain::of(get(row, "drained")?, get(row, "millis")?))
}

fn at<T>(request: &[T], position: usize) -> Result<&T, StoreError> {
    request.get(position).ok_or_else(|| StoreError::Unavailable {
        error: format!("the database answered position {position}"),
    })
}
