//! Pruning changes no answer: not to a wake that is delivered again, not to one that is new.

use std::cell::Cell;

use serde_json::Value;
use tokio::runtime::Runtime;
use wakegate::store::Store;
use wakegate::store::prune::{Horizon, PruneStore, sweep};
use wakegate::wake::UtcMicros;

use super::generate::traces;
use super::hands::Hands;
use super::play::Play;
use super::trace::{Step, Trace};
use super::{check, runtime};
use crate::harness::case::{self, Case};
use crate::harness::world::MINUTE;

const HOUR: i64 = 60 * MINUTE;
/// How long the stream of these tests keeps a wake.
const KEPT: i64 = 24 * HOUR;
/// Gate 3 looks back so far from the oldest wake that can come.
const LOOKBACK: i64 = 24 * HOUR;
/// The generated clocks step back by no more.
const STEP_BACK_MAX: i64 = 2 * HOUR;

#[test]
fn pruning_at_every_step_changes_no_answer_on_sqlite() {
    let runtime = runtime();
    let case = runtime.block_on(case::sqlite());
    unchanged_on(&runtime, &case, 15);
}

#[test]
fn pruning_at_every_step_changes_no_answer_on_postgres() {
    let runtime = runtime();
    let case = runtime.block_on(case::postgres());
    unchanged_on(&runtime, &case, 10);
}

fn unchanged_on<S: Store + PruneStore>(runtime: &Runtime, case: &Case<S>, cases: u32) {
    let _within = runtime.enter();
    let store = &case.world.bench.store;
    let pruned = Cell::new(0);
    check(cases, &traces(120), |trace| {
        let trace = trace.kept();
        runtime.block_on(async {
            let (kept, _) = play(store, &case.outside, &trace, false).await;
            let (swept, gone) = play(store, &case.outside, &trace, true).await;
            pruned.set(pruned.get() + gone);
            match kept.iter().zip(&swept).position(|(kept, swept)| kept != swept) {
                None => Ok(()),
                Some(at) => Err(format!("delivery {at}\n  was {}\n  is  {}", kept[at], swept[at])),
            }
        })
    });
    assert!(pruned.get() > 0, "there was something to prune");
}

/// Plays a trace wake by wake, as a stream that keeps its wakes for [`KEPT`] delivers them, and
/// answers what became of each, and how many rows were pruned.
async fn play<S: Store + PruneStore, H: Hands>(
    store: &S,
    hands: &H,
    trace: &Trace,
    sweeps: bool,
) -> (Vec<Value>, u64) {
    let mut play = Play::new(store.clone(), hands, trace).await;
    let (mut records, mut pruned) = (Vec::new(), 0);
    let mut now = i64::MIN;
    for step in &trace.steps {
        let index = match step {
            Step::Event(index) => *index,
            Step::Redeliver(index) if trace.events[*index].stored_at > now - KEPT => *index,
            Step::Redeliver(_) => continue,
            Step::Control(control) => {
                hands.apply(control).await;
                continue;
            }
        };
        now = now.max(trace.events[index].stored_at);
        if sweeps {
            let rows = UtcMicros::from_micros(now - KEPT - LOOKBACK - STEP_BACK_MAX);
            let swept = sweep(store, Horizon { rows, keys: None }, false).await.unwrap();
            pruned += swept.iter().map(|(_, rows)| rows).sum::<u64>();
        }
        let delivery = play.deliveries[index].clone();
        records.extend(play.world.work(&[delivery]).await);
    }
    (records, pruned)
}
