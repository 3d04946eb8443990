//! Lanes over a simulated stream, store and audit log that fail, stall, lose replies, deliver again,
//! hand a lane over, restart, and end the worker at every await point, in simulated time. One seed
//! is one run, told again by `make simulate SEEDS=<seed>`.

mod acts;
mod audit;
mod consumer;
mod events;
mod judge;
mod mistakes;
mod network;
mod oracle;
mod plan;
mod run;
mod server;
mod store;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;

use self::mistakes::Mistake;
use self::run::{check, run};

#[test]
fn probe() {
    let range: Vec<u64> = (0..2000).collect();
    let mut failing = Vec::new();
    let mut outcomes: BTreeMap<String, u32> = BTreeMap::new();
    let mut passed = BTreeSet::new();
    let mut crashed = BTreeMap::new();
    for seed in range {
        match check(seed) {
            Ok(report) => {
                for outcome in report.outcomes {
                    *outcomes.entry(outcome).or_default() += 1;
                }
                passed.extend(report.points_passed);
                for point in report.crashed_at {
                    *crashed.entry(point).or_insert(0) += 1;
                }
            }
            Err(what) => {
                if failing.is_empty() {
                    println_lines(&what);
                }
                failing.push((seed, what.lines().rev().nth(1).unwrap_or("").to_owned()));
            }
        }
    }
    let not: Vec<_> = passed.iter().filter(|p| !crashed.contains_key(p)).collect();
    panic!("{failing:#?}\n{outcomes:#?}\n{crashed:?}\nNOT {not:?}");
}

#[test]
fn mutants() {
    let mut lines = Vec::new();
    for mistake in Mistake::ALL {
        let started = std::time::Instant::now();
        let mut others: BTreeMap<String, u32> = BTreeMap::new();
        let mut found = None;
        for seed in 0..3000 {
            let report = std::panic::catch_unwind(AssertUnwindSafe(|| run(seed, Some(*mistake), false)));
            let Ok(report) = report else {
                *others.entry("panic".to_owned()).or_default() += 1;
                continue;
            };
            for breach in &report.breaches {
                *others.entry(format!("{:?}", breach.invariant)).or_default() += 1;
            }
            if report.breaches.iter().any(|breach| breach.invariant == mistake.breaks()) {
                found = Some(seed);
                break;
            }
        }
        lines.push(format!("{mistake:?}: {found:?} {others:?} {:?}", started.elapsed()));
    }
    panic!("{lines:#?}");
}

fn println_lines(what: &str) {
    std::fs::write("/tmp/sim-trace.txt", what).unwrap();
}
