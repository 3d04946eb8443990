//! A lost race of which only the losers are decided again.

use std::collections::HashSet;

use wakegate::store::BatchRecord;
use wakegate::store::memory::{MemoryStore, RunStatus};
use wakegate::wake::WakeId;

/// Puts what was decided first in the place of what is decided now, but for the wakes whose key or
/// whose run somebody else took.
pub fn keep_winners(memory: &MemoryStore, first: &BatchRecord, now: &mut BatchRecord) {
    if first.covers != now.covers || first.from != now.from {
        return;
    }
    let losers = losers(memory, first);
    let lost = |wake: WakeId| losers.contains(&wake);
    now.runs.retain(|run| lost(run.wake.id));
    now.runs.extend(first.runs.iter().filter(|run| !lost(run.wake.id)).cloned());
    now.merged_wakes.retain(|merged| lost(merged.wake.id));
    let won = first.merged_wakes.iter().filter(|merged| !lost(merged.wake.id));
    now.merged_wakes.extend(won.cloned());
    now.refusals.retain(|refused| lost(refused.wake.id));
    now.refusals.extend(first.refusals.iter().filter(|of| !lost(of.wake.id)).cloned());
    let inserted: HashSet<WakeId> = now.runs.iter().map(|run| run.wake.id).collect();
    let merged: HashSet<WakeId> = now.merged_wakes.iter().map(|merged| merged.run_id).collect();
    now.merges.extend(first.merges.iter().cloned());
    now.merges.retain(|run| merged.contains(&run.run_id) && !inserted.contains(&run.run_id));
    now.merges.dedup_by_key(|run| run.run_id);
    let taken = memory.keys();
    let mut seen = HashSet::new();
    now.keys.extend(first.keys.iter().cloned());
    now.keys.retain(|key| {
        let name = (key.organization_id.clone(), key.idempotency_key.clone());
        !taken.contains_key(&name) && seen.insert(name)
    });
}

fn losers(memory: &MemoryStore, first: &BatchRecord) -> HashSet<WakeId> {
    let taken = memory.keys();
    let key_taken = |wake: &wakegate::wake::Wake| {
        let key = wake.occurrence.key().map(|key| (wake.organization_id.clone(), key.clone()));
        key.is_some_and(|key| taken.contains_key(&key))
    };
    let runs = memory.runs();
    let run_taken = |run| runs.iter().any(|of| of.id == run && of.status != RunStatus::Queued);
    let runs = first.runs.iter().filter(|run| key_taken(&run.wake)).map(|run| run.wake.id);
    let merged = first.merged_wakes.iter();
    let merged = merged.filter(|of| key_taken(&of.wake) || run_taken(of.run_id));
    runs.chain(merged.map(|merged| merged.wake.id)).collect()
}
