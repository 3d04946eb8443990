//! Gates in shadow: whatever fails, what they would have refused is on record once, with what became
//! of the wake, and is told to operators; and all that is promised of wakes is kept.

use std::collections::{BTreeMap, BTreeSet};

use wakegate::store::{BatchRecord, Store as _};
use wakegate::wake::WakeId;

use super::acts::at_once;
use super::oracle::Invariant;
use super::run::run_on;
use super::world::Inside;
use crate::serial_model::answer::Answer;
use crate::serial_model::assert_met;
use crate::serial_model::play::told_of_shadows;

const SEEDS: u64 = 700;

/// Some gate is, in every way that some can be; capacity has simulations of its own.
fn in_shadow(seed: u64) -> [bool; 4] {
    let of = 1 + seed % 7;
    [of & 1 > 0, of & 2 > 0, of & 4 > 0, false]
}

/// What a batch puts on record of a wake for gates in shadow.
pub fn would_refuse(batch: &BatchRecord, wake: WakeId) -> Result<Vec<String>, String> {
    let mut of_wake = batch.shadowed.iter().filter(|shadowed| shadowed.wake.id == wake);
    let Some(shadowed) = of_wake.next() else { return Ok(Vec::new()) };
    if of_wake.next().is_some() {
        return Err("gates in shadow are on record twice".to_owned());
    }
    let told = told_of_shadows(&serde_json::from_str(&shadowed.record).unwrap());
    let reasons: Vec<&str> = told.iter().map(|words| reason(words)).collect();
    if reasons != shadowed.reasons {
        return Err(format!("{:?} beside {told:?}", shadowed.reasons));
    }
    Ok(told)
}

/// The reason within what a gate in shadow told in words.
fn reason(words: &str) -> &str {
    words.split('"').nth(1).expect("a refusal has a reason")
}

impl Inside {
    /// What gates in shadow would have refused of all wakes.
    pub fn would_refuse(&self) -> Vec<String> {
        let answers = self.oracle.decided.values().filter_map(|decided| decided.answer.as_ref());
        let told = answers.flat_map(|answer| &answer.would_refuse);
        told.map(|words| reason(words).to_owned()).collect()
    }

    /// A wake that is decided already adds nothing.
    pub fn shadows_are_new(&mut self, batch: &BatchRecord) {
        let index_of = |id| self.oracle.index_of(id);
        let ids: Vec<WakeId> = batch.shadowed.iter().map(|shadowed| shadowed.wake.id).collect();
        let known = |id: &WakeId| {
            index_of(*id).is_none_or(|index| self.oracle.decided.contains_key(&index))
        };
        let again: Vec<WakeId> = ids.into_iter().filter(known).collect();
        if !again.is_empty() {
            self.breach(Invariant::OneOutcome, || format!("{again:?}: once more in shadow"));
        }
    }

    /// Operators have been told what a wake was let through for.
    pub fn shadows_are_told(&self, index: usize, answer: &Answer) -> Result<(), String> {
        let untold = answer
            .would_refuse
            .iter()
            .map(|words| reason(words))
            .find(|reason| !self.oracle.is_audited(index, &format!("would_refuse.{reason}")));
        untold
            .map_or(Ok(()), |reason| Err(format!("{reason} in shadow is not on the audit stream")))
    }

    /// On record is what the model says and nothing else, and whoever was told was told that.
    pub fn shadows_are_kept(&mut self) {
        let expected: BTreeSet<usize> = self
            .oracle
            .decided
            .iter()
            .filter(|(_, decided)| {
                decided.answer.as_ref().is_some_and(|answer| !answer.would_refuse.is_empty())
            })
            .map(|(index, _)| *index)
            .collect();
        let ids: Vec<WakeId> =
            (0..self.plan.events.len()).map(|index| self.oracle.id_of(index)).collect();
        let kept = at_once(self.memory.read_shadowed(&ids)).unwrap();
        let kept: BTreeMap<usize, String> = kept
            .into_iter()
            .map(|(id, shadowed)| (self.oracle.index_of(id).unwrap(), shadowed.record))
            .collect();
        if !kept.keys().eq(&expected) {
            let kept: Vec<_> = kept.keys().collect();
            self.breach(Invariant::EveryOutcome, || {
                format!("in shadow: {kept:?} on record, {expected:?} decided")
            });
            return;
        }
        for (index, record) in kept {
            let record: serde_json::Value = serde_json::from_str(&record).unwrap();
            let told = self.oracle.told.get(&index).filter(|told| **told != record).cloned();
            if let Some(told) = told {
                self.breach(Invariant::SameAnswer, || {
                    format!("event {index} was told {told}, and on record is {record}")
                });
            }
        }
    }
}

#[test]
fn gates_in_shadow_are_on_record_once_and_told_whatever_fails() {
    let (mut would_refuse, mut refused) = (BTreeMap::new(), 0);
    for seed in 0..SEEDS {
        let of = in_shadow(seed);
        let report = run_on(seed, None, false, |plan| plan.in_shadow = of);
        let first = report.breaches.first();
        assert!(first.is_none(), "seed {seed}, {of:?} in shadow: {first:?}");
        for reason in report.would_refuse {
            *would_refuse.entry(reason).or_insert(0) += 1;
        }
        refused += report.outcomes.iter().filter(|of| of.starts_with("refused")).count();
    }
    assert!(refused > 100, "gates that are not in shadow refuse: {refused}");
    assert_met(
        &would_refuse,
        &[
            ("agent_paused", 10),
            ("agent_stopped", 10),
            ("agent_pending_approval", 10),
            ("organization_paused", 50),
            ("platform_paused", 50),
            ("allowance_exhausted", 50),
        ],
    );
}
