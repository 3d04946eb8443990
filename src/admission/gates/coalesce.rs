//! Gate 4: can this wake join a queued run?

use super::{Gate, GateName, Posture, Verdict};
use crate::admission::COALESCE_WINDOW;
use crate::admission::decision::Decision;
use crate::admission::facts::{Facts, MergeBucket, ReadFailure};
use crate::admission::sight::Sight;
use crate::wake::{IdempotencyKey, RunId, UtcMicros, Wake};

/// Hold: a burst must not become many runs because nobody could look.
pub const GATE: Gate = Gate { name: GateName::Coalesce, posture: Posture::Hold, check, sight };

/// The newest queued run of the same agent, reason and task bucket in `(t − 5 s, t]`; of equal
/// instants the greatest id. The actor is not looked at: a mixed-actor merge relabels the run, and
/// the allowance then counts it one high or one low (seed 001, "Accepted consequence").
fn check(facts: &Facts, wake: &Wake) -> Result<Verdict, ReadFailure> {
    let Some(bucket) = MergeBucket::of(wake) else { return Ok(Verdict::Pass) };
    let Some((_, run_id)) = newest(facts, &bucket, wake)? else { return Ok(Verdict::Pass) };
    let takes_key = match wake.occurrence.key() {
        None => false,
        Some(key) => {
            let keys = facts.keys.as_ref().map_err(Clone::clone)?;
            !keys.contains_key(&(wake.organization_id.clone(), key.clone()))
        }
    };
    Ok(Verdict::Conclude(Decision::Merge { run_id, takes_key }))
}

fn newest(
    facts: &Facts,
    bucket: &MergeBucket,
    wake: &Wake,
) -> Result<Option<(UtcMicros, RunId)>, ReadFailure> {
    let queued = facts.queued.as_ref().map_err(Clone::clone)?;
    let start = wake.requested_at - COALESCE_WINDOW;
    Ok(queued.by_bucket.get(bucket).and_then(|runs| {
        let newest = runs.keys().rev().find(|(at, _)| *at <= wake.requested_at);
        newest.filter(|(at, _)| *at > start).copied()
    }))
}

fn sight(facts: &Facts, wake: &Wake) -> Result<Sight, ReadFailure> {
    let Some(bucket) = MergeBucket::of(wake) else {
        let why = if wake.occurrence.key().is_some_and(IdempotencyKey::is_comment) {
            "its key is a comment's"
        } else {
            "its task_id is there but no usable string"
        };
        return Ok(Sight::of("whether the wake may join a run", format!("never: {why}")));
    };
    let at = wake.requested_at;
    let task = match &bucket.task_id {
        Some(task) => format!("task \"{task}\""),
        None => "no task".to_owned(),
    };
    let looked_at = format!(
        "queued runs of organization \"{}\", agent \"{}\", reason \"{}\" and {task}, requested \
         after {} and up to {at}",
        bucket.organization_id,
        bucket.agent_profile_id,
        bucket.reason,
        at - COALESCE_WINDOW,
    );
    let newest = newest(facts, &bucket, wake)?;
    let saw = match newest {
        None => "none".to_owned(),
        Some((requested_at, run_id)) => format!("run {run_id}, requested at {requested_at}"),
    };
    let runs = facts.queued.as_ref().ok().and_then(|queued| queued.by_bucket.get(&bucket));
    let edges = runs.into_iter().flat_map(|runs| runs.keys());
    Ok(Sight::of(looked_at, saw)
        .with_some("run_id", newest.map(|(_, run_id)| run_id.to_string()))
        .changing_at(edges.flat_map(|(at, _)| [*at, *at + COALESCE_WINDOW])))
}
