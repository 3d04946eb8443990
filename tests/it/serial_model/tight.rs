//! The same properties where the queue is small and the rate is low.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use super::generate::traces;
use super::model::Model;
use super::trace::{Tight, Trace};
use super::{agree_in_memory, agree_on, agrees, assert_met, brief, runtime, shadowed};
use crate::harness::case;

/// Traces of up to so many plans, with ceilings that they meet.
pub fn tight_traces(plans_max: usize) -> impl Strategy<Value = Trace> {
    let tight = (0_u32..8, 0_u32..6, prop::option::weighted(0.4, 0_u32..5), 0_u32..6);
    let tight = tight.prop_map(|(platform, organization, acme, intake)| Tight {
        platform,
        organization,
        acme,
        // Most of the time the queue is what is full.
        intake: if intake == 0 { 1_000 } else { intake },
    });
    (traces(plans_max), tight).prop_map(|(trace, tight)| Trace { tight: Some(tight), ..trace })
}

#[test]
fn seed_004_traces_on_a_small_queue_equal_the_serial_model_in_memory() {
    agree_in_memory(300, &tight_traces(60), agrees);
}

#[test]
fn seed_004_traces_on_a_small_queue_equal_the_serial_model_on_sqlite() {
    let runtime = runtime();
    let case = runtime.block_on(case::sqlite());
    agree_on(&runtime, &case, 15, &tight_traces(80), agrees);
}

#[test]
fn seed_004_traces_on_a_small_queue_equal_the_serial_model_on_postgres() {
    let runtime = runtime();
    let case = runtime.block_on(case::postgres());
    agree_on(&runtime, &case, 10, &tight_traces(80), agrees);
}

/// What gate 6 would have refused goes on, and fills the queue for those that come after it.
#[test]
fn seed_004_traces_on_a_small_queue_equal_the_serial_model_with_the_gate_in_shadow() {
    let in_shadow = [false, false, false, true];
    let traces = tight_traces(60).prop_map(move |trace| Trace { in_shadow, ..trace });
    agree_in_memory(200, &traces, shadowed::agrees);
}

/// Without queues that fill and empty the property would hold of anything.
#[test]
fn generated_small_queues_are_met_full_and_with_room() {
    let mut runner = TestRunner::deterministic();
    let mut met: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..300 {
        let trace = tight_traces(60).new_tree(&mut runner).unwrap().current();
        let ids = (0..trace.events.len()).map(|index| index as u128).collect();
        for answer in Model::play(&trace, ids).answers.iter().flatten() {
            *met.entry(brief(answer)).or_default() += 1;
            if let Some((boundary, ..)) = &answer.overload {
                *met.entry(boundary.clone()).or_default() += 1;
            }
        }
    }
    assert_met(
        &met,
        &[
            ("queued", 500),
            ("coalesced", 50),
            ("deduplicated:windowed", 50),
            ("refused:allowance_exhausted", 3),
            ("queued_runs.platform", 200),
            ("queued_runs.organization", 200),
            ("intake", 15),
        ],
    );
}
