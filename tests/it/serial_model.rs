//! The batched engine equals a plain serial model, written from the contract alone, over generated
//! traces, however they are split into batches, on every store.
//!
//! `PROPTEST_CASES` scales every number of cases; 256 is what runs by default.

pub mod allowance;
pub mod answer;
mod explained;
mod faults;
mod generate;
mod hands;
pub mod model;
pub mod play;
mod pruned;
mod shadowed;
mod tight;
pub mod trace;
mod traps;

use std::collections::BTreeMap;
use std::fmt::Debug;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use tokio::runtime::{Builder, Runtime};
use wakegate::store::Store;
use wakegate::store::memory::MemoryStore;

use self::answer::Answer;
use self::generate::{event_traces, traces};
use self::hands::Hands;
use self::model::Model;
use self::play::{Cuts, Play, difference};
use self::trace::Trace;
use crate::harness::case::{self, Case};
use crate::harness::outside::Outside;

#[test]
fn traces_in_batches_equal_the_serial_model_in_memory() {
    agree_in_memory(300, &traces(60), agrees);
}

#[test]
fn traces_in_batches_equal_the_serial_model_on_sqlite() {
    let runtime = runtime();
    let case = runtime.block_on(case::sqlite());
    agree_on(&runtime, &case, 20, &traces(120), agrees);
}

#[test]
fn traces_in_batches_equal_the_serial_model_on_postgres() {
    let runtime = runtime();
    let case = runtime.block_on(case::postgres());
    agree_on(&runtime, &case, 15, &traces(120), agrees);
}

/// Each trace in the batches of its cuts, in one batch a wake and in one of all, on a store each.
fn agree_in_memory<T: Strategy<Value = Trace>>(
    cases: u32,
    traces: &T,
    agrees: impl AsyncFn(&MemoryStore, &MemoryStore, &Trace, &Cuts) -> Result<(), String>,
) {
    let runtime = runtime();
    check(cases, &(traces, cuts()), |(trace, cuts)| {
        let trace = trace.kept();
        for cuts in [cuts, Cuts::everywhere(), Cuts::nowhere()] {
            let store = MemoryStore::new();
            runtime.block_on(agrees(&store, &store, &trace, &cuts))?;
        }
        Ok(())
    });
}

/// As [`agree_in_memory`], on this store.
fn agree_on<S: Store, T: Strategy<Value = Trace>>(
    runtime: &Runtime,
    case: &Case<S>,
    cases: u32,
    traces: &T,
    agrees: impl AsyncFn(&S, &Outside, &Trace, &Cuts) -> Result<(), String>,
) {
    let _within = runtime.enter();
    let store = &case.world.bench.store;
    check(cases, &(traces, cuts()), |(trace, cuts)| {
        for cuts in [cuts, Cuts::everywhere(), Cuts::nowhere()] {
            runtime.block_on(agrees(store, &case.outside, &trace, &cuts))?;
        }
        Ok(())
    });
}

#[test]
fn every_split_of_a_short_trace_gives_the_same_in_memory() {
    let runtime = runtime();
    check(200, &event_traces(6), |trace| {
        for number in splits(&trace) {
            let store = MemoryStore::new();
            runtime.block_on(agrees(&store, &store, &trace, &Cuts::numbered(number)))?;
        }
        Ok(())
    });
}

#[test]
fn every_split_of_every_trap_gives_what_is_spelt_out_in_memory() {
    let runtime = runtime();
    for trap in traps::all() {
        for number in splits(&trap.trace) {
            let store = MemoryStore::new();
            runtime.block_on(springs(&store, &store, &trap, number));
        }
    }
}

#[test]
fn splits_of_every_trap_give_what_is_spelt_out_on_sqlite() {
    let runtime = runtime();
    let case = runtime.block_on(case::sqlite());
    springs_on(&runtime, &case);
}

#[test]
fn splits_of_every_trap_give_what_is_spelt_out_on_postgres() {
    let runtime = runtime();
    let case = runtime.block_on(case::postgres());
    springs_on(&runtime, &case);
}

fn springs_on<S: Store>(runtime: &Runtime, case: &Case<S>) {
    let _within = runtime.enter();
    let store = &case.world.bench.store;
    for trap in traps::all() {
        let last = splits(&trap.trace).end - 1;
        // All at once, one by one, and two alternations of one and more.
        for number in [0, last, 0b0101_0101 & last, 0b0010_0110 & last] {
            runtime.block_on(springs(store, &case.outside, &trap, number));
        }
    }
}

/// Without the generator's traps the properties would hold of anything.
#[test]
fn generated_traces_meet_every_outcome() {
    let mut runner = TestRunner::deterministic();
    let mut met: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..300 {
        let trace = traces(60).new_tree(&mut runner).unwrap().current();
        let ids = (0..trace.events.len()).map(|index| index as u128).collect();
        let played = Model::play(&trace, ids);
        if allowance::bounds(&trace, &played) {
            *met.entry("within the bound's premises".to_owned()).or_default() += 1;
        }
        for answer in played.answers.iter().flatten() {
            *met.entry(brief(answer)).or_default() += 1;
        }
    }
    assert_met(
        &met,
        &[
            ("coalesced", 500),
            ("deduplicated:durable", 50),
            ("deduplicated:windowed", 200),
            ("no_wake", 50),
            ("queued", 1_000),
            ("queued/task_unattributed", 50),
            ("refused:agent_paused", 10),
            ("refused:agent_pending_approval", 10),
            ("refused:agent_stopped", 10),
            ("refused:allowance_exhausted", 200),
            ("refused:organization_paused", 30),
            ("refused:platform_paused", 30),
            ("within the bound's premises", 30),
        ],
    );
}

/// What is generated comes to each of these so often.
pub fn assert_met(met: &BTreeMap<String, u32>, at_least: &[(&str, u32)]) {
    for (what, at_least) in at_least {
        let of_it = met.get(*what).copied().unwrap_or(0);
        assert!(of_it >= *at_least, "{what}: {of_it} of at least {at_least}: {met:#?}");
    }
}

/// Plays a trace and holds everything that is promised of it against the model.
async fn agrees<S: Store, H: Hands>(
    store: &S,
    hands: &H,
    trace: &Trace,
    cuts: &Cuts,
) -> Result<(), String> {
    let mut play = Play::new(store.clone(), hands, trace).await;
    let expected = play.expected();
    let actual = play.run(&expected, cuts).await?;
    difference(&expected, &actual)?;
    allowance::bounded(trace, &actual)?;
    play.run_again(&actual, cuts).await.map_err(|what| format!("again: {what}"))
}

/// Plays a trap in the nth split.
async fn springs<S: Store, H: Hands>(store: &S, hands: &H, trap: &traps::Trap, number: u32) {
    let cuts = Cuts::numbered(number);
    let mut play = Play::new(store.clone(), hands, &trap.trace).await;
    let expected = play.expected();
    let briefs: Vec<_> = expected.answers.iter().flatten().map(brief).collect();
    assert_eq!(briefs, trap.outcomes, "the model: {}", trap.shows);
    let actual = play.run(&expected, &cuts).await;
    if let Err(what) = actual.and_then(|actual| difference(&expected, &actual)) {
        panic!("{}, split {number:b}: {what}{:?}", trap.shows, trap.trace);
    }
}

/// `outcome`, `outcome:reason` or `outcome/degraded`.
fn brief(answer: &Answer) -> String {
    match (&answer.reason, &answer.degraded) {
        (Some(reason), _) => format!("{}:{reason}", answer.outcome),
        (None, Some(degraded)) => format!("{}/{degraded}", answer.outcome),
        (None, None) => answer.outcome.clone(),
    }
}

/// The ways to split a trace of n deliveries, of which there are 2^(n−1).
fn splits(trace: &Trace) -> std::ops::Range<u32> {
    0..1 << (trace.events.len() - 1)
}

fn cuts() -> impl Strategy<Value = Cuts> {
    vec(prop::bool::weighted(0.3), 1..40).prop_map(Cuts)
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// For stores in memory: a lane that holds need not wait.
fn runtime_without_waits() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// Tries a property on generated values, the smallest that fails is shown.
fn check<T: Debug>(
    cases: u32,
    strategy: &impl Strategy<Value = T>,
    property: impl Fn(T) -> Result<(), String>,
) {
    let config = Config::default();
    let cases = (config.cases * cases).div_ceil(256);
    let config = Config { cases, failure_persistence: None, max_shrink_time: 15_000, ..config };
    let outcome =
        TestRunner::new(config).run(strategy, |value| property(value).map_err(TestCaseError::fail));
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(why, value)) => panic!("{why}\n{value:?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}
