//! Room: what gate 6 asks of a store, and what a record claims of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::admission::facts::{Room, Scoped};
use crate::admission::intake::Slot;
use crate::admission::limits::{Ceilings, Dimension, Limits, OrganizationLimits};
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
    /// What is known beforehand about limits, for whoever wants no more than can matter.
    pub sparing: Option<Sparing>,
}

/// Projects may be left out whose organization has so few queued runs that none of its projects can
/// reach its limit with so many wakes more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sparing {
    /// The platform's limit for a project; an organization's own may be lower.
    pub queued_project_max: u32,
    /// Wakes that are decided by the answer.
    pub wakes: u32,
}

impl Sparing {
    /// Whether one of an organization's projects may be full.
    #[must_use]
    pub fn is_crowded(self, queued: u64, own: Option<&OrganizationLimits>) -> bool {
        let own = own.and_then(|limits| limits.of(Dimension::QueuedProject));
        let max = own.unwrap_or(u32::MAX).min(self.queued_project_max);
        queued.saturating_add(self.wakes.into()) > u64::from(max)
    }
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
    /// Without what cannot matter to so many wakes under these ceilings.
    #[must_use]
    pub fn sparing(mut self, ceilings: &Ceilings, wakes: usize) -> Self {
        self.sparing = Some(Sparing {
            queued_project_max: ceilings.of(Dimension::QueuedProject),
            wakes: u32::try_from(wakes).unwrap_or(u32::MAX),
        });
        self
    }

    /// What these wakes would need room in.
    #[must_use]
    pub fn of<'a>(wakes: impl IntoIterator<Item = &'a Wake>) -> Self {
        let (mut organizations, mut projects) = (BTreeSet::new(), BTreeSet::new());
        let mut slots: BTreeMap<_, BTreeSet<Slot>> = BTreeMap::new();
        for wake in wakes {
            organizations.insert(&wake.organization_id);
            if let Some(project) = &wake.project_id {
                projects.insert((&wake.organization_id, project));
            }
            let producer = (&wake.organization_id, wake.producer.class());
            slots.entry(producer).or_default().insert(Slot::of(wake.requested_at));
        }
        let scoped = |(organization, project): (&OrganizationId, &ProjectId)| {
            (organization.clone(), project.clone())
        };
        Self {
            organizations: organizations.into_iter().cloned().collect(),
            projects: projects.into_iter().map(scoped).collect(),
            intake: spans(slots),
            sparing: None,
        }
    }

    /// Whether there is nothing to ask.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.organizations.is_empty()
    }
}

/// The slots near these, without gaps and without anything twice.
fn spans(slots: BTreeMap<(&OrganizationId, ProducerClass), BTreeSet<Slot>>) -> Vec<IntakeSpan> {
    let mut intake: Vec<IntakeSpan> = Vec::new();
    for ((organization_id, producer), slots) in slots {
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
    intake
}

/// What a batch admits, and under which limits: the store holds it against what is there when it is
/// written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomClaim {
    /// Whether what is exceeded stops it: not where gate 6 is in shadow, which counts all the same.
    enforced: bool,
    platform_max: u32,
    organizations: BTreeMap<OrganizationId, OrganizationClaim>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct OrganizationClaim {
    queued_max: u32,
    queued_project_max: u32,
    projects: BTreeSet<ProjectId>,
    intake_max: u32,
    intake: BTreeMap<ProducerClass, BTreeMap<Slot, u64>>,
}

/// Wakes that are admitted in one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmittedSlot<'a> {
    /// The tenant.
    pub organization_id: &'a OrganizationId,
    /// The producer.
    pub producer: ProducerClass,
    /// The slot.
    pub slot: Slot,
    /// How many.
    pub wakes: u64,
    /// Most of a minute.
    pub max: u32,
}

impl RoomClaim {
    /// A claim of nothing yet.
    #[must_use]
    pub fn new(limits: &Limits<'_>, enforced: bool) -> Self {
        let platform_max = limits.ceilings.of(Dimension::QueuedPlatform);
        Self { enforced, platform_max, organizations: BTreeMap::new() }
    }

    /// Claims room for the run of a wake.
    pub fn admit(&mut self, wake: &Wake, limits: &Limits<'_>) {
        let id = &wake.organization_id;
        let claim = self.organizations.entry(id.clone()).or_insert_with(|| {
            let max = |dimension| limits.effective(id, dimension).max;
            OrganizationClaim {
                queued_max: max(Dimension::QueuedOrganization),
                queued_project_max: max(Dimension::QueuedProject),
                projects: BTreeSet::new(),
                intake_max: max(Dimension::Intake),
                intake: BTreeMap::new(),
            }
        });
        claim.projects.extend(wake.project_id.clone());
        let slots = claim.intake.entry(wake.producer.class()).or_default();
        *slots.entry(Slot::of(wake.requested_at)).or_default() += 1;
    }

    /// Whether what is exceeded stops the batch.
    #[must_use]
    pub const fn is_enforced(&self) -> bool {
        self.enforced
    }

    /// Most queued runs of all organizations.
    #[must_use]
    pub const fn platform_max(&self) -> u32 {
        self.platform_max
    }

    /// Organizations in order, each with its most queued runs, and those of each of its projects.
    pub fn organizations(&self) -> impl Iterator<Item = (&OrganizationId, u32, u32)> {
        self.organizations
            .iter()
            .map(|(id, claim)| (id, claim.queued_max, claim.queued_project_max))
    }

    /// Projects in order, each with the place of its organization among
    /// [`RoomClaim::organizations`].
    pub fn projects(&self) -> impl Iterator<Item = (usize, &ProjectId)> {
        self.organizations
            .values()
            .enumerate()
            .flat_map(|(place, claim)| claim.projects.iter().map(move |project| (place, project)))
    }

    /// What has to be counted as admitted, in order.
    pub fn admitted(&self) -> impl Iterator<Item = AdmittedSlot<'_>> {
        self.organizations.iter().flat_map(|(organization_id, claim)| {
            claim.intake.iter().flat_map(move |(&producer, slots)| {
                let max = claim.intake_max;
                slots.iter().map(move |(&slot, &wakes)| AdmittedSlot {
                    organization_id,
                    producer,
                    slot,
                    wakes,
                    max,
                })
            })
        })
    }

    /// All that has to be read to know whether the claim holds.
    #[must_use]
    pub fn query(&self) -> RoomQuery {
        RoomQuery {
            organizations: self.organizations.keys().cloned().collect(),
            projects: self.scoped_projects(|_, _| true),
            intake: self.spans(),
            sparing: None,
        }
    }

    /// The projects of organizations that have more queued than one project may: in the others none
    /// can be over its limit.
    #[must_use]
    pub fn crowded_projects(&self, now: &Room) -> Vec<Scoped<ProjectId>> {
        self.scoped_projects(|id, claim| {
            let queued = now.queued_organizations.get(id);
            queued.is_some_and(|queued| *queued > u64::from(claim.queued_project_max))
        })
    }

    fn scoped_projects(
        &self,
        of: impl Fn(&OrganizationId, &OrganizationClaim) -> bool,
    ) -> Vec<Scoped<ProjectId>> {
        let claimed = self.organizations.iter().filter(|(id, claim)| of(id, claim));
        claimed
            .flat_map(|(id, claim)| {
                claim.projects.iter().map(|project| (id.clone(), project.clone()))
            })
            .collect()
    }

    /// The slots to read to know whether a rate is exceeded.
    #[must_use]
    pub fn spans(&self) -> Vec<IntakeSpan> {
        let mut slots: BTreeMap<_, BTreeSet<Slot>> = BTreeMap::new();
        for admitted in self.admitted() {
            let producer = (admitted.organization_id, admitted.producer);
            slots.entry(producer).or_default().insert(admitted.slot);
        }
        spans(slots)
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
        let mut organizations = self.organizations();
        if organizations.any(|(id, max, _)| over(now.queued_organizations.get(id), max)) {
            return Some(Dimension::QueuedOrganization);
        }
        let queued = |((id, project), depth): (&Scoped<ProjectId>, &u64)| {
            let claim = self.organizations.get(id).filter(|claim| claim.projects.contains(project));
            claim.is_some_and(|claim| over(Some(depth), claim.queued_project_max))
        };
        if now.queued_projects.iter().any(queued) {
            return Some(Dimension::QueuedProject);
        }
        let rate = |(id, claim): (&OrganizationId, &OrganizationClaim)| {
            claim.intake.iter().any(|(producer, slots)| {
                now.intake.get(&(id.clone(), *producer)).is_some_and(|admitted| {
                    let busiest = slots.keys().map(|at| admitted.busiest_minute(*at)).max();
                    busiest > Some(u64::from(claim.intake_max))
                })
            })
        };
        self.organizations.iter().any(rate).then_some(Dimension::Intake)
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
