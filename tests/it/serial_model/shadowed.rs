//! With any gates in shadow a batch still decides as its wakes would one at a time, and what they
//! would have refused is told as the model says: in the record, once on the audit stream, once in the
//! metric, however often the wakes are delivered.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use wakegate::audit::AuditClass;
use wakegate::store::Store;

use super::answer::Played;
use super::generate::shadowed_traces;
use super::hands::Hands;
use super::model::Model;
use super::play::{Cuts, Play, difference};
use super::trace::{Step, Trace};
use super::{agree_in_memory, agree_on, assert_met, runtime};
use crate::harness::case;

#[test]
fn traces_in_batches_equal_the_serial_model_in_memory() {
    agree_in_memory(200, &shadowed_traces(60), agrees);
}

#[test]
fn traces_in_batches_equal_the_serial_model_on_sqlite() {
    let runtime = runtime();
    let case = runtime.block_on(case::sqlite());
    agree_on(&runtime, &case, 12, &shadowed_traces(100), agrees);
}

#[test]
fn traces_in_batches_equal_the_serial_model_on_postgres() {
    let runtime = runtime();
    let case = runtime.block_on(case::postgres());
    agree_on(&runtime, &case, 10, &shadowed_traces(100), agrees);
}

/// Without what they are about the properties would hold of anything.
#[test]
fn generated_traces_meet_what_every_gate_in_shadow_would_refuse() {
    let mut runner = TestRunner::deterministic();
    let mut met: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..300 {
        let trace = shadowed_traces(60).new_tree(&mut runner).unwrap().current();
        let ids = (0..trace.events.len()).map(|index| index as u128).collect();
        for answer in Model::play(&trace, ids).answers.iter().flatten() {
            for told in &answer.would_refuse {
                let reason = told.split('"').nth(1).unwrap();
                *met.entry(format!("{reason}, then {}", answer.outcome)).or_default() += 1;
            }
            if answer.would_refuse.len() > 1 {
                *met.entry("more than one".to_owned()).or_default() += 1;
            }
        }
    }
    assert_met(
        &met,
        &[
            ("agent_paused, then queued", 3),
            ("agent_stopped, then coalesced", 3),
            ("agent_pending_approval, then queued", 3),
            ("platform_paused, then queued", 10),
            ("platform_paused, then refused", 3),
            ("organization_paused, then deduplicated", 3),
            ("organization_paused, then coalesced", 3),
            ("allowance_exhausted, then queued", 100),
            ("allowance_exhausted, then deduplicated", 1),
            ("more than one", 3),
        ],
    );
}

pub async fn agrees<S: Store, H: Hands>(
    store: &S,
    hands: &H,
    trace: &Trace,
    cuts: &Cuts,
) -> Result<(), String> {
    let mut play = Play::new(store.clone(), hands, trace).await;
    let expected = play.expected();
    let actual = play.run(&expected, cuts).await?;
    difference(&expected, &actual)?;
    told_once(&play, trace, &expected)?;
    play.run_again(&actual, cuts).await.map_err(|what| format!("again: {what}"))?;
    told_once(&play, trace, &expected).map_err(|what| format!("again: {what}"))
}

/// One audit event and one count for each gate in shadow that would have refused an event, at its
/// first delivery alone.
fn told_once<S: Store, H: Hands>(
    play: &Play<'_, S, H>,
    trace: &Trace,
    expected: &Played,
) -> Result<(), String> {
    let deliveries = trace.steps.iter().filter(|step| !matches!(step, Step::Control(_)));
    let firsts = deliveries.zip(&expected.answers).filter_map(|(step, answer)| match step {
        Step::Event(index) => Some((*index, answer.as_ref()?)),
        _ => None,
    });
    let mut wanted: Vec<(String, String)> = Vec::new();
    for (index, answer) in firsts {
        let id = play.deliveries[index].wake_id().to_string();
        let reasons = answer.would_refuse.iter().map(|told| told.split('"').nth(1).unwrap());
        wanted.extend(reasons.map(|reason| (id.clone(), reason.to_owned())));
    }
    let audited = play.world.audited();
    let told = audited.iter().filter(|event| event.class == AuditClass::WouldRefuse);
    let mut told: Vec<(String, String)> =
        told.map(|event| (event.wake_id.to_string(), event.reason.clone())).collect();
    told.sort();
    wanted.sort();
    if told != wanted {
        return Err(format!("audited {told:?}\n  wanted {wanted:?}"));
    }
    let rendered = play.world.bench.metrics.render();
    let series = rendered.lines().filter(|line| line.starts_with("wakegate_would_refuse_total{"));
    let counted: u64 =
        series.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    if counted != wanted.len() as u64 {
        return Err(format!("counted {counted} of {}", wanted.len()));
    }
    Ok(())
}
