//! Lanes over a simulated stream, store and audit log that fail, stall, lose replies, deliver again,
//! hand a lane over, restart, and end the worker at every await point, in simulated time. One seed
//! is one run, told again by `make simulate SEEDS=<seed>`.
//!
//! How it works, what it imitates and what it leaves out is told in
//! docs/decisions/0033-simulation.md.

mod acts;
pub mod audit;
mod consumer;
mod database;
mod events;
pub mod fakes;
mod judge;
mod mistakes;
mod network;
mod oracle;
pub mod plan;
mod run;
mod server;
pub mod store;
mod worker;
pub mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use self::plan::{CALLS, PUBLISH};
use self::run::{Report, run};
use self::worker::Point;

/// Runs these seeds: one (`1234`), or a range (`0..10000`).
const SEEDS_VARIABLE: &str = "WAKEGATE_SIM_SEEDS";
/// What runs by default: as much as takes some twenty seconds on one core.
const SEEDS_DEFAULT: Range<u64> = 0..2_000;

/// What some runs showed together.
#[derive(Default)]
struct Shown {
    outcomes: BTreeMap<String, u32>,
    crashed_at: BTreeSet<Point>,
    broken: Option<(u64, String)>,
}

/// The seeds asked for, if any are.
fn seeds_asked() -> Option<Range<u64>> {
    #[expect(clippy::disallowed_methods, reason = "the tests' own variable, read in one place")]
    let text = std::env::var(SEEDS_VARIABLE).ok().filter(|text| !text.is_empty())?;
    let number = |text: &str| {
        let number = text.parse::<u64>();
        number.unwrap_or_else(|_| panic!("{SEEDS_VARIABLE} is a seed or a range, not {text:?}"))
    };
    Some(match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => number(&text)..number(&text) + 1,
    })
}

#[test]
fn lanes_keep_their_promises_whatever_fails() {
    let asked = seeds_asked();
    let seeds = asked.clone().unwrap_or(SEEDS_DEFAULT);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // By default other tests run beside this one.
    let threads = if asked.is_some() { cores } else { 1 };
    let shown = show(&seeds, threads);
    if let Some((seed, why)) = shown.broken {
        panic!("{why}\ntell it again: make simulate SEEDS={seed}");
    }
    if asked.is_none() {
        assert_every_await_point_was_the_last(&shown.crashed_at);
        assert_every_outcome_was_met(&shown.outcomes);
    }
}

/// Runs seeds until one of them breaks a promise.
fn show(seeds: &Range<u64>, threads: usize) -> Shown {
    let next = AtomicU64::new(seeds.start);
    let shown = Mutex::new(Shown::default());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::SeqCst);
            if !seeds.contains(&seed) || shown.lock().unwrap().broken.is_some() {
                return;
            }
            let Ok(report) = std::panic::catch_unwind(|| run(seed, None, false)) else {
                let why = format!("seed {seed} panics: see above");
                shown.lock().unwrap().broken = Some((seed, why));
                return;
            };
            let mut shown = shown.lock().unwrap();
            if !report.breaches.is_empty() {
                let first = shown.broken.as_ref().is_none_or(|(other, _)| seed < *other);
                if first {
                    shown.broken = Some((seed, told(seed)));
                }
                return;
            }
            shown.crashed_at.extend(report.crashed_at);
            for outcome in report.outcomes {
                *shown.outcomes.entry(outcome).or_default() += 1;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    shown.into_inner().unwrap()
}

/// Runs a seed once more, and tells all that happened and what it broke.
fn told(seed: u64) -> String {
    let Report { breaches, trace, .. } = run(seed, None, true);
    let Some(breach) = breaches.first() else {
        return format!("seed {seed} breaks a promise, and not when it is told: it is no seed");
    };
    format!(
        "{}\nseed {seed} breaks {:?} at {} ms: {}",
        trace.join("\n"),
        breach.invariant,
        breach.at_ms,
        breach.what
    )
}

fn assert_every_await_point_was_the_last(crashed_at: &BTreeSet<Point>) {
    let calls = CALLS.into_iter().chain([PUBLISH]);
    let points = calls.flat_map(|call| [Point::Before(call), Point::After(call)]);
    let missing: Vec<Point> = points.filter(|point| !crashed_at.contains(point)).collect();
    assert!(missing.is_empty(), "no worker ended at {missing:?}");
}

/// Without wakes that meet, the promises would hold of anything.
fn assert_every_outcome_was_met(outcomes: &BTreeMap<String, u32>) {
    for (outcome, at_least) in [
        ("coalesced", 500),
        ("deduplicated:durable", 100),
        ("deduplicated:windowed", 500),
        ("no_wake", 500),
        ("queued", 5_000),
        ("queued/count_read_failed", 20),
        ("queued/task_unattributed", 300),
        ("refused:agent_paused", 50),
        ("refused:agent_pending_approval", 50),
        ("refused:agent_stopped", 50),
        ("refused:allowance_exhausted", 200),
        ("refused:organization_paused", 300),
        ("refused:platform_paused", 300),
        ("rejected", 200),
    ] {
        let met = outcomes.get(outcome).copied().unwrap_or(0);
        assert!(met >= at_least, "{outcome}: {met} of at least {at_least}");
    }
}

#[test]
fn a_seed_is_told_again_exactly() {
    for seed in 0..20 {
        let first = run(seed, None, true);
        let again = run(seed, None, true);
        let differ = first.trace.iter().zip(&again.trace).find(|(first, again)| first != again);
        assert_eq!(differ, None, "seed {seed}");
        assert_eq!(first.trace.len(), again.trace.len(), "seed {seed}");
        assert_eq!(first.fingerprint, run(seed, None, false).fingerprint, "seed {seed}, untold");
    }
}
