//! Deleting what has ended: a page is read, what of it may go is told, and that is deleted.
//!
//! Nothing here chooses how old is old enough: [`crate::cli::prune`] knows the horizons. What these
//! statements keep whatever they are asked: a run that has not ended, the wakes that joined a run
//! that is kept, and the keys of both.

use std::future::Future;

use uuid::Uuid;

use super::StoreError;
use crate::wake::UtcMicros;

/// What can be pruned, in the order in which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// `wake_keys`: before the runs and merges that keep them, so that a preview says the same.
    Keys,
    /// `merged_wakes`: those whose run goes, or has gone.
    Merged,
    /// `runs`
    Runs,
    /// `refused_wakes`
    Refused,
    /// `shadowed_wakes`
    Shadowed,
    /// `intake_slots`
    Intake,
    /// `redrives`: what is older than any wake on the stream is the redrive of none of them.
    Redrives,
}

impl Table {
    /// Every table, in the order in which they are pruned.
    pub const ALL: [Self; 7] = [
        Self::Keys,
        Self::Merged,
        Self::Runs,
        Self::Refused,
        Self::Shadowed,
        Self::Intake,
        Self::Redrives,
    ];

    /// Its name in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Keys => "wake_keys",
            Self::Merged => "merged_wakes",
            Self::Runs => "runs",
            Self::Refused => "refused_wakes",
            Self::Shadowed => "shadowed_wakes",
            Self::Intake => "intake_slots",
            Self::Redrives => "redrives",
        }
    }
}

/// What is old: everything here was requested, and has ended, before its instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizon {
    /// Runs, merged wakes, slots, redrives and refusals, those of gates in shadow too, before this
    /// may go.
    pub rows: UtcMicros,
    /// Keys before this may go; without it, none.
    pub keys: Option<UtcMicros>,
}

/// A row by its primary key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowKey {
    /// Of every table but two.
    Id(Uuid),
    /// Of `intake_slots`.
    Slot {
        /// The tenant.
        organization_id: String,
        /// The producer.
        producer: String,
        /// When it begins.
        slot_at: UtcMicros,
    },
    /// Of `wake_keys`.
    Key {
        /// The tenant.
        organization_id: String,
        /// The key.
        idempotency_key: String,
    },
}

/// The next rows of a table by primary key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The last of them; nothing where there are no more.
    pub last: Option<RowKey>,
    /// Those that may go.
    pub prunable: Vec<RowKey>,
}

/// Deletes what has ended.
pub trait PruneStore: Send + Sync {
    /// The next `limit` rows behind `after`, or from the first on. Of keys, there are none without
    /// an instant for them.
    fn prunable(
        &self,
        table: Table,
        horizon: Horizon,
        after: Option<&RowKey>,
        limit: u32,
    ) -> impl Future<Output = Result<Page, StoreError>> + Send;

    /// Deletes those of these rows that may still go, in one transaction, and says how many went.
    fn prune(
        &self,
        table: Table,
        horizon: Horizon,
        rows: &[RowKey],
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;
}

/// The ids among row keys.
pub(super) fn ids(rows: &[RowKey]) -> Vec<Uuid> {
    rows.iter()
        .filter_map(|row| match row {
            RowKey::Id(id) => Some(*id),
            RowKey::Key { .. } | RowKey::Slot { .. } => None,
        })
        .collect()
}

/// The slots among row keys.
pub(super) fn slots(rows: &[RowKey]) -> impl Iterator<Item = (&str, &str, UtcMicros)> {
    rows.iter().filter_map(|row| match row {
        RowKey::Id(_) | RowKey::Key { .. } => None,
        RowKey::Slot { organization_id, producer, slot_at } => {
            Some((organization_id.as_str(), producer.as_str(), *slot_at))
        }
    })
}

/// The keys among row keys.
pub(super) fn keys(rows: &[RowKey]) -> impl Iterator<Item = (&str, &str)> {
    rows.iter().filter_map(|row| match row {
        RowKey::Id(_) | RowKey::Slot { .. } => None,
        RowKey::Key { organization_id, idempotency_key } => {
            Some((organization_id.as_str(), idempotency_key.as_str()))
        }
    })
}

/// Rows a page, and a transaction.
const PAGE_ROWS: u32 = 500;

/// Goes through every table a page at a time and deletes what may go, or with `preview` only counts
/// it. What is deleted is gone page by page: it may be ended and begun again.
///
/// # Errors
/// The database cannot be asked; what was deleted until then is deleted.
pub async fn sweep<S: PruneStore>(
    store: &S,
    horizon: Horizon,
    preview: bool,
) -> Result<[(Table, u64); Table::ALL.len()], StoreError> {
    let mut swept = Table::ALL.map(|table| (table, 0));
    for (table, count) in &mut swept {
        let mut after: Option<RowKey> = None;
        loop {
            let page = store.prunable(*table, horizon, after.as_ref(), PAGE_ROWS).await?;
            if preview || page.prunable.is_empty() {
                *count += page.prunable.len() as u64;
            } else {
                *count += store.prune(*table, horizon, &page.prunable).await?;
            }
            match page.last {
                Some(last) => after = Some(last),
                None => break,
            }
        }
    }
    Ok(swept)
}
