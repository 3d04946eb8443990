//! Limits in layers: the platform's ceilings, and what an organization lowers of them.
//!
//! One rule for all of them: what is in force is the lesser of the two; what an organization does
//! not say is the platform's, never unlimited; and 0 means none. Pure.

use std::collections::HashMap;

use crate::wake::OrganizationId;

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dimension {
    /// Runs that wait to be started, of all organizations.
    QueuedPlatform,
    /// Runs of one organization that wait to be started.
    QueuedOrganization,
    /// Runs of one project that wait to be started.
    QueuedProject,
    /// How long a run may wait.
    Waiting,
    /// Runs that are claimed or running, of all organizations.
    ActivePlatform,
    /// Runs of one organization that are claimed or running.
    ActiveOrganization,
    /// Runs that one producer's events may make in one organization in a minute.
    Intake,
    /// The body of one event.
    EventBytes,
}

impl Dimension {
    /// Every dimension, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::QueuedPlatform,
        Self::QueuedOrganization,
        Self::QueuedProject,
        Self::Waiting,
        Self::ActivePlatform,
        Self::ActiveOrganization,
        Self::Intake,
        Self::EventBytes,
    ];

    /// As `boundary` of an overload, and as label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueuedPlatform => "queued_runs.platform",
            Self::QueuedOrganization => "queued_runs.organization",
            Self::QueuedProject => "queued_runs.project",
            Self::Waiting => "waiting",
            Self::ActivePlatform => "active_runs.platform",
            Self::ActiveOrganization => "active_runs.organization",
            Self::Intake => "intake",
            Self::EventBytes => "event_bytes",
        }
    }

    /// The column of `organization_limits`, where an organization may lower it.
    #[must_use]
    pub const fn column(self) -> Option<&'static str> {
        match self {
            Self::QueuedPlatform | Self::ActivePlatform => None,
            Self::QueuedOrganization => Some("queued_runs_max"),
            Self::ActiveOrganization => Some("active_runs_max"),
            Self::QueuedProject | Self::Waiting | Self::Intake | Self::EventBytes => {
                Some(self.key())
            }
        }
    }

    /// The name of the setting.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::QueuedPlatform => "queued_runs_platform_max",
            Self::QueuedOrganization => "queued_runs_organization_max",
            Self::QueuedProject => "queued_runs_project_max",
            Self::Waiting => "waiting_seconds_max",
            Self::ActivePlatform => "active_runs_platform_max",
            Self::ActiveOrganization => "active_runs_organization_max",
            Self::Intake => "intake_events_per_minute_max",
            Self::EventBytes => "event_bytes_max",
        }
    }

    /// What it is counted in.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::QueuedPlatform
            | Self::QueuedOrganization
            | Self::QueuedProject
            | Self::ActivePlatform
            | Self::ActiveOrganization => "runs",
            Self::Waiting => "seconds",
            Self::Intake => "events per minute",
            Self::EventBytes => "bytes",
        }
    }

    /// Whether an organization may lower it; what is of the whole platform is not theirs.
    #[must_use]
    pub const fn is_of_organizations(self) -> bool {
        self.column().is_some()
    }

    /// Those that an organization may lower, in the order of [`Dimension::ALL`].
    pub fn of_organizations() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|dimension| dimension.is_of_organizations())
    }

    const fn place(self) -> usize {
        self as usize
    }
}

/// Which layer a limit comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layer {
    /// The configuration.
    Platform,
    /// The organization's own, lower limit.
    Organization,
}

impl Layer {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Platform, Self::Organization];

    /// As `layer` of an overload.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Platform => "platform",
            Self::Organization => "organization",
        }
    }
}

/// The platform's ceilings, one for each dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceilings([u32; Dimension::ALL.len()]);

impl Ceilings {
    /// The same ceiling for everything; a place to begin from.
    #[must_use]
    pub const fn all(ceiling: u32) -> Self {
        Self([ceiling; Dimension::ALL.len()])
    }

    /// With another ceiling for one dimension.
    #[must_use]
    pub const fn with(mut self, dimension: Dimension, ceiling: u32) -> Self {
        self.0[dimension.place()] = ceiling;
        self
    }

    /// The ceiling of one dimension.
    #[must_use]
    pub const fn of(&self, dimension: Dimension) -> u32 {
        self.0[dimension.place()]
    }
}

/// What one organization lowers. What it does not say is the platform's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OrganizationLimits([Option<u32>; Dimension::ALL.len()]);

impl OrganizationLimits {
    /// With a limit for one dimension, or with none of its own. What is not an organization's to
    /// limit stays as it is.
    #[must_use]
    pub const fn with(mut self, dimension: Dimension, limit: Option<u32>) -> Self {
        if dimension.is_of_organizations() {
            self.0[dimension.place()] = limit;
        }
        self
    }

    /// The limit of one dimension, where it has one of its own.
    #[must_use]
    pub const fn of(&self, dimension: Dimension) -> Option<u32> {
        self.0[dimension.place()]
    }
}

/// A limit that is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effective {
    /// Most that is allowed; 0 is none.
    pub max: u32,
    /// Which layer binds; where both say the same it is the platform's.
    pub layer: Layer,
}

impl Effective {
    /// The lesser of the two layers.
    #[must_use]
    pub const fn of(
        dimension: Dimension,
        ceilings: &Ceilings,
        limits: Option<&OrganizationLimits>,
    ) -> Self {
        let ceiling = ceilings.of(dimension);
        match limits {
            Some(limits) => match limits.of(dimension) {
                Some(limit) if limit < ceiling => Self { max: limit, layer: Layer::Organization },
                _ => Self { max: ceiling, layer: Layer::Platform },
            },
            None => Self { max: ceiling, layer: Layer::Platform },
        }
    }
}

/// Both layers, for the organizations that were asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits<'a> {
    /// The platform's.
    pub ceilings: Ceilings,
    /// Of organizations that have limits of their own; none where nothing was read of them.
    pub organizations: Option<&'a HashMap<OrganizationId, OrganizationLimits>>,
}

impl Limits<'_> {
    /// What is in force for an organization.
    #[must_use]
    pub fn effective(&self, organization: &OrganizationId, dimension: Dimension) -> Effective {
        let own = self.organizations.and_then(|limits| limits.get(organization));
        Effective::of(dimension, &self.ceilings, own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_003_effective_is_the_lesser_absent_is_the_platforms_and_0_is_none() {
        let ceilings = Ceilings::all(10);
        for dimension in Dimension::of_organizations() {
            for (limit, max, layer) in [
                (None, 10, Layer::Platform),
                (Some(0), 0, Layer::Organization),
                (Some(9), 9, Layer::Organization),
                (Some(10), 10, Layer::Platform),
                (Some(11), 10, Layer::Platform),
                (Some(u32::MAX), 10, Layer::Platform),
            ] {
                let limits = OrganizationLimits::default().with(dimension, limit);
                let effective = Effective::of(dimension, &ceilings, Some(&limits));
                assert_eq!(effective, Effective { max, layer }, "{dimension:?} {limit:?}");
            }
            let effective = Effective::of(dimension, &ceilings, None);
            assert_eq!(effective, Effective { max: 10, layer: Layer::Platform });
            let none = Effective::of(dimension, &Ceilings::all(0), None);
            assert_eq!(none.max, 0, "a ceiling of 0 is none, and never unlimited");
        }
    }

    #[test]
    fn seed_003_no_organization_lowers_or_raises_what_is_the_platforms() {
        for dimension in [Dimension::QueuedPlatform, Dimension::ActivePlatform] {
            for limit in [0, 1_000] {
                let limits = OrganizationLimits::default().with(dimension, Some(limit));
                let effective = Effective::of(dimension, &Ceilings::all(10), Some(&limits));
                assert_eq!(effective, Effective { max: 10, layer: Layer::Platform });
            }
        }
    }

    #[test]
    fn each_dimension_has_a_place_and_a_name_of_its_own() {
        let mut ceilings = Ceilings::all(0);
        for (dimension, ceiling) in Dimension::ALL.into_iter().zip(1..) {
            ceilings = ceilings.with(dimension, ceiling);
        }
        for (dimension, ceiling) in Dimension::ALL.into_iter().zip(1..) {
            assert_eq!(ceilings.of(dimension), ceiling);
            let named = |name: fn(Dimension) -> &'static str| {
                Dimension::ALL.iter().filter(|other| name(**other) == name(dimension)).count()
            };
            assert_eq!((named(Dimension::as_str), named(Dimension::key)), (1, 1));
            assert!(dimension.key().ends_with("_max"), "a limit says so in its name");
        }
    }
}
