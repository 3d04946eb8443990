//! Clocks that jump: the worker's stamps `decided_at` and nothing else; the broker's is the one that
//! wakes are judged by, and a small step back of it is smoothed over.

use serde_json::{Value, json};
use wakegate::store::Store;
use wakegate::wake::UtcMicros;

use crate::harness::case::{postgres, sqlite};
use crate::harness::logs::Logs;
use crate::harness::world::{MINUTE, Published, SECOND, T0, World, brief, mutation, requested};

/// How far the worker's clock is off, batch by batch.
const JUMPS: [i64; 4] = [0, -30 * 24 * 60 * MINUTE, 365 * 24 * 60 * MINUTE, -MINUTE];

/// Wakes that meet every window: the allowance, coalescing and both look-backs.
fn trace() -> Vec<Vec<Published>> {
    let keyed = |at, key: &str| requested(at, "a1", json!({ "task_id": "keyed" }), Some(key));
    (0..4_i64)
        .map(|round| {
            let at = T0 + round * 3 * MINUTE;
            let mut batch: Vec<Published> = (0..3)
                .map(|nth| {
                    let agent = format!("r{round}n{nth}");
                    mutation(at + nth * SECOND, "t1", "lead", &agent, json!(round * 10 + nth))
                })
                .collect();
            batch.push(keyed(at + 4 * SECOND, "k0"));
            batch.push(keyed(at + 5 * SECOND, &format!("k{round}")));
            batch.push(keyed(at + 7 * SECOND, &format!("other{round}")));
            batch
        })
        .collect()
}

/// Plays the trace with the worker's clock off by `jumps`, and returns the records without
/// `decided_at`, and those.
async fn play<S: Store>(world: &mut World<S>, jumps: [i64; 4]) -> (Vec<Value>, Vec<String>) {
    let (mut records, mut decided_at) = (Vec::new(), Vec::new());
    for (batch, jump) in trace().iter().zip(jumps) {
        world.bench.clock.set(UtcMicros::from_micros(batch[0].at + jump));
        for mut record in world.batch(batch).await {
            let stamped = record.as_object_mut().unwrap().remove("decided_at").unwrap();
            decided_at.push(stamped.as_str().unwrap().to_owned());
            records.push(record);
        }
    }
    (records, decided_at)
}

async fn the_workers_clock_changes_no_decision<S: Store>(even: &mut World<S>, odd: &mut World<S>) {
    let (expected, on_time) = play(even, [0; 4]).await;
    let (found, off) = play(odd, JUMPS).await;
    assert_eq!(found, expected);
    assert_ne!(on_time, off, "it stamps");
    let briefs: Vec<String> = expected.iter().map(brief).collect();
    for outcome in ["queued", "coalesced", "deduplicated:windowed", "refused:allowance_exhausted"] {
        assert!(briefs.iter().any(|brief| brief == outcome), "{outcome} in {briefs:?}");
    }
}

#[tokio::test]
async fn a_workers_clock_that_jumps_changes_no_decision_on_sqlite() {
    let (mut even, mut odd) = (sqlite().await, sqlite().await);
    Box::pin(the_workers_clock_changes_no_decision(&mut even.world, &mut odd.world)).await;
    assert_eq!(even.outside.runs().await, odd.outside.runs().await);
}

#[tokio::test]
async fn a_workers_clock_that_jumps_changes_no_decision_on_postgres() {
    let (mut even, mut odd) = (postgres().await, postgres().await);
    Box::pin(the_workers_clock_changes_no_decision(&mut even.world, &mut odd.world)).await;
    assert_eq!(even.outside.runs().await, odd.outside.runs().await);
}

fn by_agent(at: i64, agent: &str) -> Published {
    mutation(at, "t1", "lead", agent, json!(1))
}

/// Fills the allowance at `T0`, then publishes one wake at an instant of the broker's.
async fn judged_at<S: Store>(world: &mut World<S>, at: i64) -> Value {
    for nth in 0..5 {
        let record = world.send(by_agent(T0, &format!("a{nth}"))).await;
        assert_eq!(brief(&record), "queued");
    }
    world.send(by_agent(at, "late")).await
}

#[tokio::test]
async fn a_brokers_clock_that_steps_back_a_little_frees_nothing_and_a_larger_step_is_taken_and_logged()
 {
    for (step, outcome, requested_at, logged) in [
        (0, "refused:allowance_exhausted", T0, 0),
        (SECOND, "refused:allowance_exhausted", T0, 0),
        (MINUTE - 1, "refused:allowance_exhausted", T0, 0),
        // Nothing had been admitted by then.
        (MINUTE, "queued", T0 - MINUTE, 1),
        (24 * 60 * MINUTE, "queued", T0 - 24 * 60 * MINUTE, 1),
    ] {
        let (logs, _guard) = Logs::capture();
        let mut case = sqlite().await;
        let record = Box::pin(judged_at(&mut case.world, T0 - step)).await;
        assert_eq!(brief(&record), outcome, "{step}");
        let instant = serde_json::to_value(UtcMicros::from_micros(requested_at)).unwrap();
        assert_eq!(record["requested_at"], instant, "{step}");
        assert_eq!(logs.warnings("the broker's clock was set back").len(), logged, "{step}");
    }
}

#[tokio::test]
async fn a_brokers_clock_that_jumps_ahead_and_back_is_taken_both_times() {
    let mut case = postgres().await;
    let ahead = Box::pin(judged_at(&mut case.world, T0 + 10 * MINUTE)).await;
    assert_eq!(brief(&ahead), "queued", "a window later everything fits again");
    let (logs, _guard) = Logs::capture();
    let back = Box::pin(case.world.send(by_agent(T0 + SECOND, "back"))).await;
    assert_eq!(brief(&back), "refused:allowance_exhausted", "five lie in that window");
    assert_eq!(back["observed_count"], 5);
    assert_eq!(logs.warnings("the broker's clock was set back").len(), 1);
    assert_eq!(case.outside.run_count().await, 6);
}
