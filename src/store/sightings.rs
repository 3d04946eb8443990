//! Brings what three stores read about keys into one form.

use std::collections::HashMap;

use crate::admission::facts::{KeySightings, Scoped};
use crate::wake::{IdempotencyKey, RunId, UtcMicros};

/// One row of the keys' read.
pub(super) struct Sighting {
    /// The key's row itself, or a merge that carried the key later.
    pub(super) first: bool,
    /// The run it met.
    pub(super) run_id: RunId,
    /// When.
    pub(super) at: UtcMicros,
}

/// Adds one row. A key's run is that of its own row, however many merges carried it since; a merge
/// that took the key is both, and seen once.
pub(super) fn see(
    seen: &mut HashMap<Scoped<IdempotencyKey>, KeySightings>,
    key: &Scoped<IdempotencyKey>,
    row: &Sighting,
) {
    let sightings = seen
        .entry(key.clone())
        .or_insert_with(|| KeySightings { run_id: row.run_id, seen: Vec::new() });
    if row.first {
        sightings.run_id = row.run_id;
    }
    if let Err(place) = sightings.seen.binary_search(&(row.at, row.run_id)) {
        sightings.seen.insert(place, (row.at, row.run_id));
    }
}
