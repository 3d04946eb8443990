//! The queue on SQLite beside a small model of it that is written from docs/queue.md: random
//! operations, and after each one the same answer, the same runs, and counts equal to a recount. One
//! seed is one run, told again by `make simulate SEED=<seed>`.

mod database;
mod drive;
mod model;
mod neighbours;

use self::drive::keep;
use crate::simulation::seeds::chosen;

/// What runs by default: some ten seconds on one core.
const SEEDS: u64 = 120;
/// One seed takes as long as so many of the lanes' simulation.
const ONE_OF: usize = 4;

/// Declares parts of the seeds, which run side by side.
macro_rules! parts {
    ($($part:ident: $number:literal;)+) => {
        mod the_queue_keeps_its_promises {
            $(
                #[test]
                fn $part() {
                    super::part($number);
                }
            )+
        }
    };
}

parts! {
    part_1: 0;
    part_2: 1;
    part_3: 2;
    part_4: 3;
}

fn part(number: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for seed in chosen(0..SEEDS, ONE_OF) {
        if (seed / ONE_OF as u64 + seed) % 4 == number {
            runtime.block_on(keep(seed));
        }
    }
}
