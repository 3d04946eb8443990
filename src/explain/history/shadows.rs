//! What gates in shadow would have refused, beside what became of the wakes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{History, Source, What};
use crate::store::StoreError;
use crate::store::history::HistoryStore;
use crate::wake::WakeId;

impl History {
    /// Adds it for the wakes that are told of, and for this one.
    pub(super) async fn would_refuse(
        &mut self,
        store: &impl HistoryStore,
        wake: Option<WakeId>,
    ) -> Result<(), StoreError> {
        let told = self.entries.iter().filter_map(|entry| entry.wake_id);
        let wakes: BTreeSet<WakeId> = told.chain(wake).collect();
        let wakes: Vec<WakeId> = wakes.into_iter().collect();
        for row in store.shadowed_wakes(&wakes).await? {
            // As a refusal, with every reason; that it was none says what.
            self.refused(row);
            if let Some(entry) = self.entries.last_mut() {
                entry.what = What::WouldRefuse;
                entry.from = Source::ShadowedWakes;
                entry.reason = entry.reason.take().map(|reasons| reasons.replace(',', ", "));
            }
        }
        Ok(())
    }
}

/// What they would have refused it for, as a record says it.
pub(super) fn reasons(record: &Value) -> Option<String> {
    let refusals = record.get("would_refuse")?.as_array()?.iter();
    let reasons: Vec<&str> = refusals.filter_map(|refusal| refusal["reason"].as_str()).collect();
    (!reasons.is_empty()).then(|| reasons.join(", "))
}
