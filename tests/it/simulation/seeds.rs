//! Which seeds are run, and what is told of them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::Range;

use super::run::{Report, run};

/// Runs so many seeds (`10000`), or a range of them (`10000..20000`).
const SEEDS_VARIABLE: &str = "WAKEGATE_SIM_SEEDS";
/// Runs this seed, and tells everything that happens.
const SEED_VARIABLE: &str = "WAKEGATE_SIM_SEED";
/// What runs by default: as much as takes some forty seconds on one core.
const SEEDS_DEFAULT: Range<u64> = 0..3_200;

/// What is to be run.
enum Asked {
    Nothing,
    Seeds(Range<u64>),
    Seed(u64),
}

impl Asked {
    fn read() -> Self {
        if let Some(seed) = variable(SEED_VARIABLE) {
            return Self::Seed(number(SEED_VARIABLE, &seed));
        }
        let Some(seeds) = variable(SEEDS_VARIABLE) else { return Self::Nothing };
        let number = |text| number(SEEDS_VARIABLE, text);
        Self::Seeds(match seeds.split_once("..") {
            Some((from, to)) => number(from)..number(to),
            None => 0..number(&seeds),
        })
    }
}

/// The seeds that are asked for, or else these: for simulations whose seeds take longer, one of so many
/// of a range.
pub fn chosen(default: Range<u64>, one_of: usize) -> Vec<u64> {
    match Asked::read() {
        Asked::Seed(seed) => vec![seed],
        Asked::Seeds(seeds) => seeds.step_by(one_of).collect(),
        Asked::Nothing => default.collect(),
    }
}

fn variable(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "the tests' own variables, read in one place")]
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

fn number(variable: &str, text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{variable} has no number, but {text:?}"))
}

/// Runs one part of the seeds, every `parts`th, until one of them breaks a promise.
pub fn keep(part: u64, parts: u64) {
    match Asked::read() {
        Asked::Seed(seed) => {
            if seed % parts == part {
                tell(seed);
            }
        }
        Asked::Seeds(seeds) => drop(keep_all(seeds, part, parts)),
        Asked::Nothing => {
            let outcomes = keep_all(SEEDS_DEFAULT, part, parts);
            assert_every_outcome_was_met(&outcomes, parts);
        }
    }
}

fn keep_all(seeds: Range<u64>, part: u64, parts: u64) -> BTreeMap<String, u64> {
    let mut outcomes = BTreeMap::new();
    for seed in seeds.filter(|seed| seed % parts == part) {
        let report = std::panic::catch_unwind(|| run(seed, None, false));
        let Ok(report) = report else { panic!("seed {seed} panics: see above") };
        assert!(report.breaches.is_empty(), "{}", told(seed));
        for outcome in report.outcomes {
            *outcomes.entry(outcome).or_default() += 1;
        }
    }
    outcomes
}

/// Runs a seed once more, and tells all that happened and what it broke.
pub fn told(seed: u64) -> String {
    let Report { breaches, trace, .. } = run(seed, None, true);
    let Some(breach) = breaches.first() else {
        return format!("seed {seed} breaks a promise, and not when it is told: it is no seed");
    };
    format!(
        "{}\nseed {seed} breaks {:?} at {} ms: {}\ntell it again: make simulate SEED={seed}",
        trace.join("\n"),
        breach.invariant,
        breach.at_ms,
        breach.what
    )
}

/// Tells a seed, whether or not it breaks anything.
fn tell(seed: u64) {
    let Report { breaches, trace, .. } = run(seed, None, true);
    let text = trace.join("\n");
    writeln!(std::io::stdout(), "{text}\nseed {seed}").expect("somebody listens");
    assert!(breaches.is_empty(), "seed {seed} breaks {breaches:#?}");
}

/// Without wakes that meet, the promises would hold of anything.
fn assert_every_outcome_was_met(outcomes: &BTreeMap<String, u64>, parts: u64) {
    for (outcome, at_least) in [
        ("coalesced", 1_000),
        ("deduplicated:durable", 200),
        ("deduplicated:windowed", 1_000),
        ("no_wake", 1_000),
        ("queued", 10_000),
        ("queued/count_read_failed", 16),
        ("queued/task_unattributed", 600),
        ("refused:agent_paused", 100),
        ("refused:agent_pending_approval", 100),
        ("refused:agent_stopped", 100),
        ("refused:allowance_exhausted", 400),
        ("refused:organization_paused", 600),
        ("refused:platform_paused", 600),
        ("rejected", 400),
    ] {
        let met = outcomes.get(outcome).copied().unwrap_or(0);
        assert!(met >= at_least / parts, "{outcome}: {met}, of {outcomes:?}");
    }
}
