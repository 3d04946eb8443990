//! What organizations have set for themselves: see [`crate::store::limits`].

use sqlx::postgres::PgRow;
use sqlx::query;

use super::super::control::unknown;
use super::super::limits::{LimitStore, LimitsChange, LimitsRow, Usage, UsageQuery, note};
use super::super::room::limits_of;
use super::super::{StoreError, fault};
use super::PostgresStore;
use super::reads::{get, get_instant};
use super::timestamp::Timestamp;
use crate::admission::limits::Dimension;
use crate::wake::producer::ProducerClass;
use crate::wake::{OrganizationId, ProjectId};

fn row(row: &PgRow) -> Result<LimitsRow, StoreError> {
    let columns = Dimension::of_organizations().filter_map(Dimension::column);
    let limits = columns.map(|column| get(row, column)).collect::<Result<Vec<_>, _>>()?;
    let weight: Option<i32> = get(row, "weight")?;
    Ok(LimitsRow {
        organization_id: OrganizationId::parse(get(row, "organization_id")?)
            .map_err(|_| unknown("an organization has an id"))?,
        limits: limits_of(&limits),
        weight: weight.and_then(|weight| u32::try_from(weight).ok()),
        actor: get(row, "actor")?,
        reason: get(row, "reason")?,
        updated_at: get_instant(row, "updated_at")?,
    })
}

impl LimitStore for PostgresStore {
    async fn limits(&self, organization: &OrganizationId) -> Result<Option<LimitsRow>, StoreError> {
        let read = || query(include_str!("control/read_limits.sql")).bind(organization.to_string());
        self.sessions.read("the limits", read).await?.first().map(row).transpose()
    }

    async fn set_limits(&self, change: &LimitsChange) -> Result<LimitsRow, StoreError> {
        let set = || {
            let named: Vec<(bool, Option<u32>)> =
                Dimension::of_organizations().map(|dimension| change.of(dimension)).collect();
            let mut set = query(include_str!("control/set_limits.sql"))
                .bind(change.organization_id.to_string());
            for (is_named, _) in &named {
                set = set.bind(*is_named);
            }
            set = set.bind(change.weight.is_some());
            for (_, limit) in &named {
                set = set.bind(limit.map(i64::from));
            }
            let weight = change.weight.flatten();
            set.bind(weight.map(|weight| i32::try_from(weight).unwrap_or(i32::MAX)))
                .bind(change.by.actor.to_string())
                .bind(change.by.reason.to_string())
                .bind(Timestamp(change.by.at))
        };
        let rows = self.sessions.write("the limits", set).await?;
        rows.first()
            .map(row)
            .transpose()?
            .ok_or_else(|| fault::unavailable(&sqlx::Error::RowNotFound))
    }

    async fn usage(&self, asked: &UsageQuery) -> Result<Usage, StoreError> {
        let read = || {
            query(include_str!("control/read_usage.sql"))
                .bind(asked.organization_id.as_ref().map(OrganizationId::to_string))
                .bind(asked.project_id.as_ref().map(ProjectId::to_string))
                .bind(ProducerClass::ALL.map(ProducerClass::as_str))
                .bind(Timestamp(asked.intake_since))
        };
        let mut usage = Usage::default();
        for row in &self.sessions.read("the use", read).await? {
            let of = |column| get::<i64>(row, column).map(|n| u64::try_from(n).unwrap_or(0));
            note(&mut usage, get(row, "name")?, of("queued")?, of("active")?);
        }
        Ok(usage)
    }
}
