//! Gate 4: can this wake join a queued run?

use super::{Gate, GateName, Posture, Verdict};
use crate::admission::COALESCE_WINDOW;
use crate::admission::decision::Decision;
use crate::admission::facts::{Facts, MergeBucket, ReadFailure};
use crate::wake::Wake;

/// Hold: a burst must not become many runs because nobody could look.
pub const GATE: Gate = Gate { name: GateName::Coalesce, posture: Posture::Hold, check };

/// The newest queued run of the same agent, reason and task bucket in `(t − 5 s, t]`; of equal
/// instants the greatest id. The actor is not looked at: a mixed-actor merge relabels the run, and
/// the allowance then counts it one high or one low (seed 001, "Accepted consequence").
fn check(facts: &Facts, wake: &Wake) -> Result<Verdict, ReadFailure> {
    let Some(bucket) = MergeBucket::of(wake) else { return Ok(Verdict::Pass) };
    let queued = facts.queued.as_ref().map_err(Clone::clone)?;
    let start = wake.requested_at - COALESCE_WINDOW;
    let newest = queued.by_bucket.get(&bucket).and_then(|runs| {
        runs.keys().rev().find(|(at, _)| *at <= wake.requested_at).filter(|(at, _)| *at > start)
    });
    let Some(&(_, run_id)) = newest else { return Ok(Verdict::Pass) };
    let takes_key = match wake.occurrence.key() {
        None => false,
        Some(key) => {
            let keys = facts.keys.as_ref().map_err(Clone::clone)?;
            !keys.contains_key(&(wake.organization_id.clone(), key.clone()))
        }
    };
    Ok(Verdict::Conclude(Decision::Merge { run_id, takes_key }))
}
