//! Room: what gate 6 asks of a store, and what a record claims of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::admission::facts::{Room, Scoped};
use crate::admission::intake::Slot;
use crate::admission::limits::{Dimension, Limits, OrganizationLimits};
use crate::wake::producer::ProducerClass;
use crate::wake::{OrganizationId, ProjectId, Wake};

/// Which counters to read. Nothing is there twice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoomQuery {
    /// Queued runs, limits and drains of these.
    pub organizations: Vec<OrganizationId>,
    /// Queued runs of these.
    pub projects: Vec<Scoped<ProjectId>>,
    /// Admitted wakes of these.
    pub intake: Vec<IntakeSpan>,
}

/// Admitted wakes of one producer in one organization, in these slots, both ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntakeSpan {
    /// The tenant.
    pub organization_id: OrganizationId,
    /// The producer.
    pub producer: ProducerClass,
    /// From this slot.
    pub first: Slot,
    /// Up to this one.
    pub last: Slot,
}

impl RoomQuery {
    /// What these wakes would need room in.
    #[must_use]
    pub fn of<'a>(wakes: impl IntoIterator<Item = &'a Wake>) -> Self {
        let mut places = Places::default();
        for wake in wakes {
            places.organizations.insert(&wake.organization_id);
            if let Some(project) = &wake.project_id {
                places.projects.insert((&wake.organization_id, project));
            }
            let producer = (&wake.organization_id, wake.producer.class());
            places.slots.entry(producer).or_default().insert(Slot::of(wake.requested_at));
        }
        places.query()
    }

    /// Whether there is nothing to ask.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.organizations.is_empty()
    }
}

#[derive(Default)]
struct Places<'a> {
    organizations: BTreeSet<&'a OrganizationId>,
    projects: BTreeSet<(&'a OrganizationId, &'a ProjectId)>,
    slots: BTreeMap<(&'a OrganizationId, ProducerClass), BTreeSet<Slot>>,
}

impl Places<'_> {
    fn query(self) -> RoomQuery {
        let scoped = |(organization, project): (&OrganizationId, &ProjectId)| {
            (organization.clone(), project.clone())
        };
        let mut intake: Vec<IntakeSpan> = Vec::new();
        for ((organization_id, producer), slots) in self.slots {
            let mut spans: Vec<(Slot, Slot)> = Vec::new();
            for (first, last) in slots.into_iter().map(Slot::near) {
                match spans.last_mut() {
                    Some(span) if first <= span.1.later(1) => span.1 = last,
                    _ => spans.push((first, last)),
                }
            }
            intake.extend(spans.into_iter().map(|(first, last)| IntakeSpan {
                organization_id: organization_id.clone(),
                producer,
                first,
                last,
            }));
        }
        RoomQuery {
            organizations: self.organizations.into_iter().cloned().collect(),
            projects: self.projects.into_iter().map(scoped).collect(),
            intake,
        }
    }
}

/// What a batch admits, and under which limits: the store holds it against what is there when it is
/// written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomClaim {
    /// Whether what is exceeded stops it: not where gate 6 is in shadow, which counts all the same.
    enforced: bool,
    platform_max: u32,
    organizations: BTreeMap<OrganizationId, u32>,
    projects: BTreeMap<Scoped<ProjectId>, u32>,
    intake: BTreeMap<(OrganizationId, ProducerClass), IntakeClaim>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct IntakeClaim {
    max: u32,
    slots: BTreeMap<Slot, u64>,
}

impl RoomClaim {
    /// A claim of nothing yet.
    #[must_use]
    pub fn new(limits: &Limits<'_>, enforced: bool) -> Self {
        Self {
            enforced,
            platform_max: limits.ceilings.of(Dimension::QueuedPlatform),
            organizations: BTreeMap::new(),
            projects: BTreeMap::new(),
            intake: BTreeMap::new(),
        }
    }

    /// Claims room for the run of a wake.
    pub fn admit(&mut self, wake: &Wake, limits: &Limits<'_>) {
        let organization = &wake.organization_id;
        let max = |dimension| limits.effective(organization, dimension).max;
        let of_organization = || max(Dimension::QueuedOrganization);
        self.organizations.entry(organization.clone()).or_insert_with(of_organization);
        if let Some(project) = &wake.project_id {
            let project = (organization.clone(), project.clone());
            self.projects.entry(project).or_insert_with(|| max(Dimension::QueuedProject));
        }
        let producer = (organization.clone(), wake.producer.class());
        let claim = self
            .intake
            .entry(producer)
            .or_insert_with(|| IntakeClaim { max: max(Dimension::Intake), slots: BTreeMap::new() });
        *claim.slots.entry(Slot::of(wake.requested_at)).or_default() += 1;
    }

    /// What has to be counted as admitted: organization, producer, slot and how many, in order.
    pub fn admitted(&self) -> impl Iterator<Item = (&OrganizationId, ProducerClass, Slot, u64)> {
        self.intake.iter().flat_map(|((organization, producer), claim)| {
            claim.slots.iter().map(move |(slot, wakes)| (organization, *producer, *slot, *wakes))
        })
    }

    /// What to read to know whether the claim holds.
    #[must_use]
    pub fn query(&self) -> RoomQuery {
        let places = Places {
            organizations: self.organizations.keys().collect(),
            projects: self.projects.keys().map(|(org, project)| (org, project)).collect(),
            slots: self
                .intake
                .iter()
                .map(|((org, producer), claim)| {
                    ((org, *producer), claim.slots.keys().copied().collect())
                })
                .collect(),
        };
        places.query()
    }

    /// The first boundary that is exceeded by what is there now, the claim itself included.
    #[must_use]
    pub fn exceeded(&self, now: &Room) -> Option<Dimension> {
        if !self.enforced {
            return None;
        }
        let over = |depth: Option<&u64>, max: u32| depth.is_some_and(|d| *d > u64::from(max));
        if over(Some(&now.queued_platform), self.platform_max) {
            return Some(Dimension::QueuedPlatform);
        }
        let queued = |(organization, max): (&OrganizationId, &u32)| {
            over(now.queued_organizations.get(organization), *max)
        };
        if self.organizations.iter().any(queued) {
            return Some(Dimension::QueuedOrganization);
        }
        let queued = |(project, max): (&Scoped<ProjectId>, &u32)| {
            over(now.queued_projects.get(project), *max)
        };
        if self.projects.iter().any(queued) {
            return Some(Dimension::QueuedProject);
        }
        let rate = |(producer, claim): (&(OrganizationId, ProducerClass), &IntakeClaim)| {
            now.intake.get(producer).is_some_and(|admitted| {
                let busiest = claim.slots.keys().map(|at| admitted.busiest_minute(*at)).max();
                busiest > Some(u64::from(claim.max))
            })
        };
        self.intake.iter().any(rate).then_some(Dimension::Intake)
    }
}

/// What an organization lowers, of its columns in the order of [`Dimension::of_organizations`]. A
/// value that is out of range is as high as can be said, or, where it is negative, none.
pub(super) fn limits_of(columns: &[Option<i64>]) -> OrganizationLimits {
    let mut limits = OrganizationLimits::default();
    for (dimension, limit) in Dimension::of_organizations().zip(columns) {
        let limit = limit.map(|limit| u32::try_from(limit.max(0)).unwrap_or(u32::MAX));
        limits = limits.with(dimension, limit);
    }
    limits
}
