//! Deletes what has ended.

use sqlx::query;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::super::StoreError;
use super::super::prune::{Horizon, Page, PruneStore, RowKey, Table, ids, keys, slots};
use super::SqliteStore;
use super::reads::{get, get_instant};
use super::rows::Statement;
use crate::wake::UtcMicros;

static PRUNE_RUNS: Statement = Statement::new(include_str!("prune_runs.sql"));
static PRUNE_MERGED: Statement = Statement::new(include_str!("prune_merged.sql"));
static PRUNE_REFUSED: Statement = Statement::new(include_str!("prune_refused.sql"));
static PRUNE_SHADOWED: Statement = Statement::new(include_str!("prune_shadowed.sql"));
static PRUNE_INTAKE: Statement = Statement::new(include_str!("prune_intake.sql"));
static PRUNE_REDRIVES: Statement = Statement::new(include_str!("prune_redrives.sql"));
static PRUNE_KEYS: Statement = Statement::new(include_str!("prune_keys.sql"));

const PRUNE: &str = "the deletion of what has ended";

fn id(row: &SqliteRow) -> Result<RowKey, StoreError> {
    get::<Hyphenated>(row, "id").map(|id| RowKey::Id(id.into_uuid()))
}

fn key(row: &SqliteRow) -> Result<RowKey, StoreError> {
    Ok(RowKey::Key {
        organization_id: get(row, "organization_id")?,
        idempotency_key: get(row, "idempotency_key")?,
    })
}

fn slot(row: &SqliteRow) -> Result<RowKey, StoreError> {
    Ok(RowKey::Slot {
        organization_id: get(row, "organization_id")?,
        producer: get(row, "producer")?,
        slot_at: get_instant(row, "slot_at")?,
    })
}

fn page(
    rows: &[SqliteRow],
    row_key: impl Fn(&SqliteRow) -> Result<RowKey, StoreError>,
) -> Result<Page, StoreError> {
    let mut page = Page::default();
    for row in rows {
        let row_key = row_key(row)?;
        if get(row, "prunable")? {
            page.prunable.push(row_key.clone());
        }
        page.last = page.last.take().max(Some(row_key));
    }
    Ok(page)
}

impl PruneStore for SqliteStore {
    async fn prunable(
        &self,
        table: Table,
        horizon: Horizon,
        after: Option<&RowKey>,
        limit: u32,
    ) -> Result<Page, StoreError> {
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
                let read = query(include_str!("prune_intake_page.sql"))
                    .bind(organization.to_owned())
                    .bind(producer.to_owned())
                    .bind(slot_at.micros())
                    .bind(horizon.rows.micros())
                    .bind(i64::from(limit));
                return page(&self.sessions.read_one(what, read).await?, slot);
            }
            Table::Redrives => include_str!("prune_redrives_page.sql"),
            Table::Keys => {
                let Some(keys_before) = horizon.keys else { return Ok(Page::default()) };
                let (organization, name) = after
                    .and_then(|after| keys(std::slice::from_ref(after)).next())
                    .unwrap_or(("", ""));
                let read = query(include_str!("prune_keys_page.sql"))
                    .bind(organization.to_owned())
                    .bind(name.to_owned())
                    .bind(horizon.rows.micros())
                    .bind(keys_before.micros())
                    .bind(i64::from(limit));
                return page(&self.sessions.read_one(what, read).await?, key);
            }
        };
        let after = after.and_then(|after| ids(std::slice::from_ref(after)).pop());
        let read = query(text)
            .bind(after.unwrap_or_else(Uuid::nil).hyphenated())
            .bind(horizon.rows.micros())
            .bind(i64::from(limit));
        page(&self.sessions.read_one(what, read).await?, id)
    }

    async fn prune(
        &self,
        table: Table,
        horizon: Horizon,
        rows: &[RowKey],
    ) -> Result<u64, StoreError> {
        let before = horizon.rows.micros();
        let ids = ids(rows);
        let mut ids = ids.as_slice();
        let keys: Vec<_> = keys(rows)
            .map(|(organization, name)| (organization.to_owned(), name.to_owned()))
            .collect();
        let mut keys = keys.as_slice();
        let mut gone = 0;
        if table == Table::Intake {
            let slots: Vec<_> = slots(rows).collect();
            let mut left = slots.as_slice();
            while !left.is_empty() {
                let (statement, later) =
                    PRUNE_INTAKE.over(left, |query, (organization, producer, slot_at)| {
                        let (organization, producer) = (*organization, *producer);
                        query
                            .bind(organization.to_owned())
                            .bind(producer.to_owned())
                            .bind(slot_at.micros())
                    });
                left = later;
                gone += self.sessions.write(PRUNE, statement).await?.len();
            }
            return Ok(gone as u64);
        }
        while !ids.is_empty() || !keys.is_empty() {
            let statement;
            (statement, ids, keys) = match table {
                Table::Runs => {
                    let (statement, left) =
                        PRUNE_RUNS.over_with(ids, |query, id| query.bind(id.hyphenated()), before);
                    (statement, left, keys)
                }
                // Slots are gone already.
                Table::Merged | Table::Refused | Table::Shadowed | Table::Intake => {
                    let prune = match table {
                        Table::Merged => &PRUNE_MERGED,
                        Table::Refused => &PRUNE_REFUSED,
                        _ => &PRUNE_SHADOWED,
                    };
                    let (statement, left) =
                        prune.over(ids, |query, id| query.bind(id.hyphenated()));
                    (statement, left, keys)
                }
                Table::Redrives => {
                    let bind =
                        |query: super::rows::Prepared, id: &Uuid| query.bind(id.hyphenated());
                    let (statement, left) = PRUNE_REDRIVES.over_with(ids, bind, before);
                    (statement, left, keys)
                }
                Table::Keys => {
                    let bind =
                        |query: super::rows::Prepared, (organization, name): &(String, String)| {
                            query.bind(organization.clone()).bind(name.clone())
                        };
                    let (statement, left) = PRUNE_KEYS.over_with(keys, bind, before);
                    (statement, ids, left)
                }
            };
            gone += self.sessions.write(PRUNE, statement).await?.len();
        }
        Ok(gone as u64)
    }
}
