//! Deletes what has ended.

use sqlx::postgres::PgRow;
use sqlx::query;
use uuid::Uuid;

use super::super::StoreError;
use super::super::prune::{Horizon, Page, PruneStore, RowKey, Table, ids, keys, slots};
use super::PostgresStore;
use super::reads::{get, get_instant};
use super::session::Prepared;
use super::timestamp::Timestamp;
use crate::wake::UtcMicros;

const PRUNE: &str = "the deletion of what has ended";

fn id(row: &PgRow) -> Result<RowKey, StoreError> {
    get(row, "id").map(RowKey::Id)
}

fn key(row: &PgRow) -> Result<RowKey, StoreError> {
    Ok(RowKey::Key {
        organization_id: get(row, "organization_id")?,
        idempotency_key: get(row, "idempotency_key")?,
    })
}

fn slot(row: &PgRow) -> Result<RowKey, StoreError> {
    Ok(RowKey::Slot {
        organization_id: get(row, "organization_id")?,
        producer: get(row, "producer")?,
        slot_at: get_instant(row, "slot_at")?,
    })
}

fn page(
    rows: &[PgRow],
    row_key: impl Fn(&PgRow) -> Result<RowKey, StoreError>,
) -> Result<Page, StoreError> {
    let mut page = Page::default();
    // The order within a page that is joined with other tables is the join's.
    for row in rows {
        let row_key = row_key(row)?;
        if get(row, "prunable")? {
            page.prunable.push(row_key.clone());
        }
        page.last = page.last.take().max(Some(row_key));
    }
    Ok(page)
}

impl PruneStore for PostgresStore {
    async fn prunable(
        &self,
        table: Table,
        horizon: Horizon,
        after: Option<&RowKey>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let after_id = after.and_then(|after| ids(std::slice::from_ref(after)).pop());
        let by_id = |text: &'static str| {
            query(text)
                .bind(after_id.unwrap_or_else(Uuid::nil))
                .bind(Timestamp(horizon.rows))
                .bind(i64::from(limit))
        };
        let what = "a page of what may have ended";
        let text = match table {
            Table::Runs => include_str!("prune_runs_page.sql"),
            Table::Merged => include_str!("prune_merged_page.sql"),
            Table::Refused => include_str!("prune_refused_page.sql"),
            Table::Shadowed => include_str!("prune_shadowed_page.sql"),
            Table::Intake => {
                let first = ("", "", UtcMicros::default());
                let after = after.and_then(|after| slots(std::slice::from_ref(after)).next());
                let (organization, producer, slot_at) = after.unwrap_or(first);
                let read = || {
                    query(include_str!("prune_intake_page.sql"))
                        .bind(organization.to_owned())
                        .bind(producer.to_owned())
                        .bind(Timestamp(slot_at))
                        .bind(Timestamp(horizon.rows))
                        .bind(i64::from(limit))
                };
                return page(&self.sessions.read(what, read).await?, slot);
            }
            Table::Redrives => include_str!("prune_redrives_page.sql"),
            Table::Keys => {
                let Some(keys_before) = horizon.keys else { return Ok(Page::default()) };
                let (organization, name) = after
                    .and_then(|after| keys(std::slice::from_ref(after)).next())
                    .unwrap_or(("", ""));
                let read = || {
                    query(include_str!("prune_keys_page.sql"))
                        .bind(organization.to_owned())
                        .bind(name.to_owned())
                        .bind(Timestamp(horizon.rows))
                        .bind(Timestamp(keys_before))
                        .bind(i64::from(limit))
                };
                return page(&self.sessions.read(what, read).await?, key);
            }
        };
        page(&self.sessions.read(what, || by_id(text)).await?, id)
    }

    async fn prune(
        &self,
        table: Table,
        horizon: Horizon,
        rows: &[RowKey],
    ) -> Result<u64, StoreError> {
        let before = Timestamp(horizon.rows);
        let by_id = |text: &'static str| -> Prepared { query(text).bind(ids(rows)) };
        let gone = match table {
            Table::Runs => {
                let text = include_str!("prune_runs.sql");
                self.sessions.write(PRUNE, || by_id(text).bind(before)).await?.len()
            }
            Table::Merged | Table::Refused | Table::Shadowed => {
                let text = match table {
                    Table::Merged => include_str!("prune_merged.sql"),
                    Table::Refused => include_str!("prune_refused.sql"),
                    _ => include_str!("prune_shadowed.sql"),
                };
                self.sessions.write(PRUNE, || by_id(text)).await?.len()
            }
            Table::Intake => {
                let write = || {
                    let (mut organizations, mut producers) = (Vec::new(), Vec::new());
                    let mut at = Vec::new();
                    for (organization, producer, slot_at) in slots(rows) {
                        organizations.push(organization);
                        producers.push(producer);
                        at.push(Timestamp(slot_at));
                    }
                    query(include_str!("prune_intake.sql"))
                        .bind(organizations)
                        .bind(producers)
                        .bind(at)
                };
                self.sessions.write(PRUNE, write).await?.len()
            }
            Table::Redrives => {
                let text = include_str!("prune_redrives.sql");
                self.sessions.write(PRUNE, || by_id(text).bind(before)).await?.len()
            }
            Table::Keys => {
                let write = || {
                    let (organizations, names): (Vec<&str>, Vec<&str>) = keys(rows).unzip();
                    query(include_str!("prune_keys.sql"))
                        .bind(organizations)
                        .bind(names)
                        .bind(before)
                };
                self.sessions.write(PRUNE, write).await?.len()
            }
        };
        Ok(gone as u64)
    }
}
