//! What organizations have set for themselves: see [`crate::store::limits`].

use sqlx::query;
use sqlx::sqlite::SqliteRow;

use super::super::control::unknown;
use super::super::limits::{LimitStore, LimitsChange, LimitsRow, Usage, UsageQuery, note};
use super::super::room::limits_of;
use super::super::{StoreError, fault};
use super::SqliteStore;
use super::reads::{get, get_instant};
use crate::admission::limits::Dimension;
use crate::wake::{OrganizationId, ProjectId};

fn row(row: &SqliteRow) -> Result<LimitsRow, StoreError> {
    let columns = Dimension::of_organizations().filter_map(Dimension::column);
    let limits = columns.map(|column| get(row, column)).collect::<Result<Vec<_>, _>>()?;
    let weight: Option<i64> = get(row, "weight")?;
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

impl LimitStore for SqliteStore {
    async fn limits(&self, organization: &OrganizationId) -> Result<Option<LimitsRow>, StoreError> {
        let read = query(include_str!("control/read_limits.sql")).bind(organization.shared());
        self.sessions.read_one("the limits", read).await?.first().map(row).transpose()
    }

    async fn set_limits(&self, change: &LimitsChange) -> Result<LimitsRow, StoreError> {
        let named: Vec<(bool, Option<u32>)> =
            Dimension::of_organizations().map(|dimension| change.of(dimension)).collect();
        let mut set =
            query(include_str!("control/set_limits.sql")).bind(change.organization_id.shared());
        for (is_named, _) in &named {
            set = set.bind(*is_named);
        }
        set = set.bind(change.weight.is_some());
        for (_, limit) in &named {
            set = set.bind(limit.map(i64::from));
        }
        let set = set
            .bind(change.weight.flatten().map(i64::from))
            .bind(change.by.actor.shared())
            .bind(change.by.reason.shared())
            .bind(change.by.at.micros());
        let rows = self.sessions.write("the limits", set).await?;
        rows.first()
            .map(row)
            .transpose()?
            .ok_or_else(|| fault::unavailable(&sqlx::Error::RowNotFound))
    }

    async fn usage(&self, asked: &UsageQuery) -> Result<Usage, StoreError> {
        let read = query(include_str!("control/read_usage.sql"))
            .bind(asked.organization_id.as_ref().map(OrganizationId::shared))
            .bind(asked.project_id.as_ref().map(ProjectId::shared))
            .bind(asked.intake_since.micros());
        let mut usage = Usage::default();
        for row in &self.sessions.read_one("the use", read).await? {
            let of = |column| get::<i64>(row, column).map(|n| u64::try_from(n).unwrap_or(0));
            note(&mut usage, get(row, "name")?, of("queued")?, of("active")?);
        }
        Ok(usage)
    }
}
