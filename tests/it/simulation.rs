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

use self::run::{check, run};

#[test]
fn probe() {
    let seeds = std::env::args().count();
    let _ = seeds;
    let range: Vec<u64> = option_env!("SIM").map_or((0..200).collect(), |_| vec![]);
    let mut failing = Vec::new();
    let mut outcomes: BTreeMap<String, u32> = BTreeMap::new();
    let mut passed = BTreeSet::new();
    let mut crashed = BTreeSet::new();
    for seed in range {
        match check(seed) {
            Ok(report) => {
                for outcome in report.outcomes {
                    *outcomes.entry(outcome).or_default() += 1;
                }
                passed.extend(report.points_passed);
                crashed.extend(report.crashed_at);
            }
            Err(what) => {
                if failing.is_empty() {
                    println_lines(&what);
                }
                failing.push((seed, what.lines().rev().nth(1).unwrap_or("").to_owned()));
            }
        }
    }
    let _ = run(0, None, false);
    panic!("{failing:#?}\n{outcomes:#?}\n{:#?}", passed.difference(&crashed));
}

fn println_lines(what: &str) {
    std::fs::write("/tmp/sim-trace.txt", what).unwrap();
}
