//! Which runs of a batch a person waits for although the payload that is kept no longer says so: a
//! run keeps the best class that any of its wakes had.

use std::collections::HashSet;

use crate::store::BatchRecord;
use crate::wake::producer::ProducerClass;
use crate::wake::{ActorType, RunId, Wake};

/// The class of runs that a person waits for, as the column has it.
pub(in crate::store) const HUMAN: i16 = 0;

fn is_of_a_person(wake: &Wake) -> bool {
    wake.producer.class() != ProducerClass::RecoverySweep
        && wake.payload.actor_type().is_some_and(|actor| actor.as_str() == "user")
}

/// Runs that a person's wake made or joined in this batch, and another one joined after.
pub(in crate::store) fn awaited(batch: &BatchRecord) -> HashSet<RunId> {
    if batch.merged_wakes.is_empty() {
        return HashSet::new();
    }
    let made = batch.runs.iter().map(|run| (&run.wake, run.wake.id));
    let joined = batch.merged_wakes.iter().map(|merged| (&merged.wake, merged.run_id));
    made.chain(joined).filter(|(wake, _)| is_of_a_person(wake)).map(|(_, run)| run).collect()
}

/// Whether an actor of a payload is no person, so that the row alone would not tell.
pub(in crate::store) fn is_nobody(actor: Option<&ActorType>) -> bool {
    actor.is_none_or(|actor| actor.as_str() != "user")
}
