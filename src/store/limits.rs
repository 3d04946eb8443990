//! What organizations have set for themselves, for whoever shows it and changes it.

use std::future::Future;

use super::StoreError;
use super::control::Change;
use crate::admission::limits::{Dimension, OrganizationLimits};
use crate::wake::{OrganizationId, ProjectId, UtcMicros};

/// A row of `organization_limits`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitsRow {
    /// Whose.
    pub organization_id: OrganizationId,
    /// What it lowers.
    pub limits: OrganizationLimits,
    /// Its part of the slots beside others' parts, where it is not 1.
    pub weight: Option<u32>,
    /// Who set it last, if they said.
    pub actor: Option<String>,
    /// Why, if they said.
    pub reason: Option<String>,
    /// When.
    pub updated_at: UtcMicros,
}

/// What is to be set; what is not named stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitsChange {
    /// Whose.
    pub organization_id: OrganizationId,
    /// Limits, each at most once; none leaves the platform's.
    pub limits: Vec<(Dimension, Option<u32>)>,
    /// The weight; none is 1.
    pub weight: Option<Option<u32>>,
    /// By whom, why and when.
    pub by: Change,
}

impl LimitsChange {
    /// Of a dimension: whether it is to be set, and to what.
    #[must_use]
    pub fn of(&self, dimension: Dimension) -> (bool, Option<u32>) {
        let named = self.limits.iter().find(|(named, _)| *named == dimension);
        (named.is_some(), named.and_then(|(_, limit)| *limit))
    }
}

/// How much is there now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Runs that wait, of all organizations.
    pub queued_platform: u64,
    /// Runs that are claimed or running, of all organizations.
    pub active_platform: u64,
    /// Runs of the organization that wait.
    pub queued_organization: u64,
    /// Runs of the organization that are claimed or running.
    pub active_organization: u64,
    /// Runs of the project that wait.
    pub queued_project: u64,
    /// Wakes admitted since the instant asked about, of the producer with the most of them.
    pub intake: u64,
}

/// Which use is asked for. What is not named is 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageQuery {
    /// Of this organization.
    pub organization_id: Option<OrganizationId>,
    /// Of this project of it.
    pub project_id: Option<ProjectId>,
    /// Wakes whose slot begins at or after this.
    pub intake_since: UtcMicros,
}

/// Limits. What is set here is read by gate 6 and by claims at the next batch and the next claim.
pub trait LimitStore: Clone + Send + Sync + 'static {
    /// What an organization has set; nothing where it has set nothing yet.
    fn limits(
        &self,
        organization: &OrganizationId,
    ) -> impl Future<Output = Result<Option<LimitsRow>, StoreError>> + Send;

    /// Sets some of it.
    fn set_limits(
        &self,
        change: &LimitsChange,
    ) -> impl Future<Output = Result<LimitsRow, StoreError>> + Send;

    /// How much is there now.
    fn usage(&self, asked: &UsageQuery) -> impl Future<Output = Result<Usage, StoreError>> + Send;
}

/// The use named `name` in the answer of a database.
pub(super) fn note(usage: &mut Usage, name: &str, queued: u64, active: u64) {
    match name {
        "platform" => (usage.queued_platform, usage.active_platform) = (queued, active),
        "organization" => (usage.queued_organization, usage.active_organization) = (queued, active),
        "project" => usage.queued_project = queued,
        _ => usage.intake = usage.intake.max(queued),
    }
}
