//! Room: what gate 6 reads, and what a record takes of it.

use sqlx::error::DatabaseError;
use sqlx::postgres::PgRow;
use sqlx::query;

use super::super::room::limits_of;
use super::super::{RoomClaim, RoomQuery, StoreError};
use super::reads::{get, get_instant};
use super::session::{Prepared, Sessions};
use super::timestamp::Timestamp;
use crate::admission::facts::{Drain, Room};
use crate::admission::intake::Slot;
use crate::admission::limits::Dimension;
use crate::wake::OrganizationId;

pub(super) const READ: &str = include_str!("read_room.sql");

/// What the database raises where the room is taken.
const TAKEN: &str = "WGR01";

pub(super) async fn read(sessions: &Sessions, asked: &RoomQuery) -> Result<Room, StoreError> {
    let rows = sessions.read("the read of room", || bind_query(query(READ), asked)).await?;
    room(&rows, asked)
}

/// The boundary that was over its limit when a commit failed for that.
pub(super) fn taken(error: &dyn DatabaseError) -> Option<Dimension> {
    let named = |dimension: &Dimension| dimension.as_str() == error.message();
    (error.code()? == TAKEN).then(|| Dimension::ALL.into_iter().find(named))?
}

pub(super) fn bind_query(statement: Prepared, asked: &RoomQuery) -> Prepared {
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
    statement
        .bind(organizations)
        .bind(project_organizations)
        .bind(projects)
        .bind(intake_organizations)
        .bind(producers)
        .bind(first)
        .bind(last)
        .bind(asked.sparing.map(|sparing| i64::from(sparing.queued_project_max)))
        .bind(asked.sparing.map_or(0, |sparing| i64::from(sparing.wakes)))
}

/// What a batch takes, for the database to hold against what is there once the batch is: within the
/// commit, where the queue is locked. What is not enforced is counted, and compared with nothing.
pub(super) fn bind(statement: Prepared, claim: Option<&RoomClaim>) -> Prepared {
    let (mut organizations, mut queued, mut of_projects) = (Vec::new(), Vec::new(), Vec::new());
    for (organization, max, project_max) in claim.into_iter().flat_map(RoomClaim::organizations) {
        organizations.push(organization.as_str());
        queued.push(i64::from(max));
        of_projects.push(i64::from(project_max));
    }
    let (mut places, mut projects) = (Vec::new(), Vec::new());
    for (place, project) in claim.into_iter().flat_map(RoomClaim::projects) {
        // Counted from 1.
        places.push(i32::try_from(place + 1).unwrap_or(i32::MAX));
        projects.push(project.as_str());
    }
    let enforced = claim.filter(|claim| claim.is_enforced());
    let statement = statement
        .bind(enforced.map(|claim| i64::from(claim.platform_max())))
        .bind(organizations)
        .bind(queued)
        .bind(of_projects)
        .bind(places)
        .bind(projects);
    let (mut organizations, mut producers, mut slots) = (Vec::new(), Vec::new(), Vec::new());
    let (mut admitted, mut max) = (Vec::new(), Vec::new());
    for slot in claim.into_iter().flat_map(RoomClaim::admitted) {
        organizations.push(slot.organization_id.as_str());
        producers.push(slot.producer.as_str());
        slots.push(Timestamp(slot.slot.start()));
        admitted.push(i64::try_from(slot.wakes).unwrap_or(i64::MAX));
        max.push(i64::from(slot.max));
    }
    statement.bind(organizations).bind(producers).bind(slots).bind(admitted).bind(max)
}

pub(super) fn room<'r>(
    rows: impl IntoIterator<Item = &'r PgRow>,
    asked: &RoomQuery,
) -> Result<Room, StoreError> {
    let mut room = Room::default();
    for row in rows {
        let queued: Option<i64> = get(row, "depth")?;
        let depth = u64::try_from(queued.unwrap_or(0)).unwrap_or(0);
        let position = usize::try_from(get::<i32>(row, "position")?).unwrap_or(0).wrapping_sub(1);
        match get(row, "boundary")? {
            "platform" => {
                room.queued_platform = depth;
                room.drains.extend(drain(row)?.map(|drain| (None, drain)));
            }
            "organization" => {
                let organization = at(&asked.organizations, position)?;
                if queued.is_some() {
                    room.queued_organizations.insert(organization.clone(), depth);
                    let organization = Some(organization.clone());
                    room.drains.extend(drain(row)?.map(|drain| (organization, drain)));
                }
                if let Some(limits) = get::<Option<Vec<Option<i64>>>>(row, "limits")? {
                    room.limits.insert(organization.clone(), limits_of(&limits));
                }
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
