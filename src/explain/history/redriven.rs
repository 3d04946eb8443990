//! What operators had published again.

use super::{Entry, History, Source, What};
use crate::store::StoreError;
use crate::store::redrive::RedriveStore;
use crate::wake::WakeId;

impl History {
    /// Adds what operators had published again of all this, and of what all this is: of a refused or
    /// rejected wake as which one, and of a wake that is another's redrive, by whom and why.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn redriven(&mut self, store: &impl RedriveStore) -> Result<(), StoreError> {
        let wakes: Vec<WakeId> = self.entries.iter().filter_map(|entry| entry.wake_id).collect();
        for redrive in store.redrives(&wakes).await? {
            let of = [Some(redrive.wake_id), redrive.published.map(|published| published.wake_id)];
            let about = self.entries.iter().find(|entry| of.contains(&entry.wake_id));
            let (organization_id, task_id) = about
                .map(|entry| (entry.organization_id.clone(), entry.task_id.clone()))
                .unwrap_or_default();
            let became = redrive.published.map_or_else(
                || "begun and not known to be published".to_owned(),
                |published| format!("as wake {}", published.wake_id),
            );
            self.entries.push(Entry {
                at: redrive.created_at,
                what: What::Redriven,
                wake_id: Some(redrive.wake_id),
                run_id: None,
                organization_id,
                task_id,
                reason: None,
                detail: format!("{became}, by \"{}\": {}", redrive.actor, redrive.reason),
                record: None,
                from: Source::Redrives,
            });
        }
        Ok(())
    }
}
