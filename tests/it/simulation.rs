//! Lanes over a simulated stream, store and audit log that fail, stall, lose replies, deliver again,
//! hand a lane over, restart, and end the worker at every await point, in simulated time. One seed
//! is one run, told again by `make simulate SEED=<seed>`.
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
mod points;
mod room;
mod run;
pub mod seeds;
mod server;
mod shadowed;
pub mod store;
mod verdict;
mod worker;
pub mod world;

use self::points::{points, seed_that_ends_at};
use self::run::run;
use self::seeds::{keep, told};

/// Seeds that are tried until a worker ends at an await point.
const SEEDS_OF_POINT_MAX: u64 = 200;

/// Declares parts of the seeds, which run side by side.
macro_rules! parts {
    ($($part:ident of $parts:literal: $number:literal;)+) => {
        mod lanes_keep_their_promises_whatever_fails {
            $(
                #[test]
                fn $part() {
                    super::keep($number, $parts);
                }
            )+
        }
    };
}

parts! {
    part_1 of 8: 0;
    part_2 of 8: 1;
    part_3 of 8: 2;
    part_4 of 8: 3;
    part_5 of 8: 4;
    part_6 of 8: 5;
    part_7 of 8: 6;
    part_8 of 8: 7;
}

#[test]
fn a_worker_that_ends_at_any_await_point_breaks_nothing() {
    for (number, point) in points().enumerate() {
        let ended = (0..SEEDS_OF_POINT_MAX).any(|nth| {
            let seed = seed_that_ends_at(number, nth);
            let report = run(seed, None, false);
            assert!(report.breaches.is_empty(), "{}", told(seed));
            report.crashed_at.contains(&point)
        });
        assert!(ended, "no worker ends at {point:?}");
    }
}

#[test]
fn a_seed_is_told_again_exactly() {
    for seed in 0..60 {
        let first = run(seed, None, true);
        let again = run(seed, None, true);
        let differ = first.trace.iter().zip(&again.trace).find(|(first, again)| first != again);
        assert_eq!(differ, None, "seed {seed}");
        assert_eq!(first.trace.len(), again.trace.len(), "seed {seed}");
        assert_eq!(first.fingerprint, run(seed, None, false).fingerprint, "seed {seed}, untold");
    }
}
