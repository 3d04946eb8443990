//! Limits in layers: what is in force, where it comes from, and how much of it is used now.

use super::documents::{
    LimitDocument, LimitSource, LimitsGetRequest, LimitsReply, LimitsSetRequest, OwnLimits,
};
use super::error::ControlError;
use crate::admission::intake::{SLOTS, Slot};
use crate::admission::limits::{Dimension, Effective, Layer};
use crate::config::LimitsConfig;
use crate::store::control::Change;
use crate::store::limits::{LimitStore, LimitsChange, LimitsRow, Usage, UsageQuery};
use crate::wake::{OrganizationId, ProjectId, UtcMicros};

/// What is in force: of one organization, or of the platform.
///
/// # Errors
/// The database does not answer.
pub async fn get<S: LimitStore>(
    store: &S,
    platform: &LimitsConfig,
    request: LimitsGetRequest,
    now: UtcMicros,
) -> Result<LimitsReply, ControlError> {
    let own = match &request.organization_id {
        Some(organization) => store.limits(organization).await?,
        None => None,
    };
    let usage = used(store, request.organization_id.as_ref(), request.project_id.as_ref(), now);
    let usage = usage.await?;
    Ok(reply(platform, request.organization_id, request.project_id.is_some(), own, usage))
}

/// Sets what an organization lowers; what the request does not name stays as it is.
///
/// # Errors
/// The database does not answer.
pub async fn set<S: LimitStore>(
    store: &S,
    platform: &LimitsConfig,
    request: LimitsSetRequest,
    now: UtcMicros,
) -> Result<LimitsReply, ControlError> {
    let organization_id = request.organization_id.clone();
    let change = LimitsChange {
        organization_id: organization_id.clone(),
        limits: request.limits(),
        weight: request.weight,
        by: Change { actor: request.actor, reason: request.reason, at: now },
    };
    let row = store.set_limits(&change).await?;
    tracing::warn!(
        organization_id = %row.organization_id,
        limits = ?row.limits,
        weight = row.weight,
        actor = %change.by.actor,
        reason = %change.by.reason,
        "the limits of an organization were set"
    );
    let usage = used(store, Some(&organization_id), None, now).await?;
    Ok(reply(platform, Some(organization_id), false, Some(row), usage))
}

async fn used<S: LimitStore>(
    store: &S,
    organization: Option<&OrganizationId>,
    project: Option<&ProjectId>,
    now: UtcMicros,
) -> Result<Usage, ControlError> {
    let asked = UsageQuery {
        organization_id: organization.cloned(),
        project_id: project.cloned(),
        // The minute that ends with the slot of now.
        intake_since: Slot::of(now).later(1 - SLOTS).start(),
    };
    Ok(store.usage(&asked).await?)
}

fn reply(
    platform: &LimitsConfig,
    organization_id: Option<OrganizationId>,
    of_project: bool,
    own: Option<LimitsRow>,
    usage: Usage,
) -> LimitsReply {
    let limits = own.as_ref().map(|row| &row.limits);
    let of_organization = organization_id.is_some();
    let document = |dimension: Dimension| {
        let effective = Effective::of(dimension, &platform.ceilings, limits);
        LimitDocument {
            name: dimension.as_str(),
            unit: dimension.unit(),
            max: effective.max,
            source: match effective.layer {
                Layer::Platform => LimitSource::Platform,
                Layer::Organization => LimitSource::Organization,
            },
            platform: platform.ceilings.of(dimension),
            organization: limits.and_then(|limits| limits.of(dimension)),
            in_use: match dimension {
                Dimension::QueuedPlatform => Some(usage.queued_platform),
                Dimension::ActivePlatform => Some(usage.active_platform),
                Dimension::QueuedOrganization => {
                    of_organization.then_some(usage.queued_organization)
                }
                Dimension::ActiveOrganization => {
                    of_organization.then_some(usage.active_organization)
                }
                Dimension::Intake => of_organization.then_some(usage.intake),
                Dimension::QueuedProject => of_project.then_some(usage.queued_project),
                Dimension::Waiting | Dimension::EventBytes => None,
            },
        }
    };
    LimitsReply {
        mode: platform.mode.as_str(),
        version: platform.version.clone(),
        enforced: platform.enforced,
        organization_id,
        limits: Dimension::ALL.map(document).to_vec(),
        own: own.map(|row| OwnLimits {
            weight: row.weight.unwrap_or(1),
            actor: row.actor,
            reason: row.reason,
            updated_at: row.updated_at,
        }),
    }
}
