//! How full it is.

use super::super::RoomQuery;
use super::state::{RunStatus, State};
use crate::admission::facts::Room;
use crate::admission::intake::Slot;
use crate::wake::OrganizationId;

impl State {
    /// How full it is. Nothing here has a clock, so nothing is said of drains.
    pub(super) fn room(&self, query: &RoomQuery) -> Room {
        let mut room = Room::default();
        for run in self.runs.values().filter(|run| run.status == RunStatus::Queued) {
            room.queued_platform += 1;
            if query.organizations.contains(&run.organization_id) {
                *room.queued_organizations.entry(run.organization_id.clone()).or_default() += 1;
            }
            let Some(project) = &run.project_id else { continue };
            let project = (run.organization_id.clone(), project.clone());
            if query.projects.contains(&project) {
                *room.queued_projects.entry(project).or_default() += 1;
            }
        }
        let limits = |organization: &OrganizationId| {
            Some((organization.clone(), *self.limits.get(organization)?))
        };
        room.limits = query.organizations.iter().filter_map(limits).collect();
        for span in &query.intake {
            let producer = (span.organization_id.clone(), span.producer);
            let Some(admitted) = self.intake.get(&producer) else { continue };
            let within = |(slot, _): &(Slot, u64)| (span.first..=span.last).contains(slot);
            for (slot, wakes) in admitted.slots().filter(within) {
                room.intake.entry(producer.clone()).or_default().add(slot, wakes);
            }
        }
        room
    }
}
