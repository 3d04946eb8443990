//! What `explain` says before an event is published is what becomes of it, and each instant that it
//! states as the end of an answer is one, over generated worlds on every store.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::Value;
use tokio::runtime::Runtime;
use wakegate::admission::{Ceilings, Decision, GateName, Shadows};
use wakegate::explain::walk::same_decision;
use wakegate::explain::{Conclusion, Explanation, GateLine, Told, Walk, explain, json, message};
use wakegate::intake::Delivery;
use wakegate::lane::instant::request_instant;
use wakegate::store::Store;
use wakegate::store::memory::MemoryStore;
use wakegate::wake::UtcMicros;

use super::generate::{shadowed_traces, traces, uncounted_traces};
use super::hands::Hands;
use super::play::Play;
use super::trace::{Step, Trace};
use super::{assert_met, check, runtime, runtime_without_waits};
use crate::harness::case::{self, Case};
use crate::harness::world::{MINUTE, SECOND, brief};

/// What was met, so that a generator that stopped meeting it is noticed.
type Met = RefCell<BTreeMap<String, u32>>;

#[test]
fn what_explain_says_is_what_then_happens_in_memory() {
    let (runtime, met) = (runtime(), Met::default());
    check(60, &traces(60), |trace| {
        let store = MemoryStore::new();
        runtime.block_on(holds(&store, &store, &trace.kept(), &met))
    });
}

#[test]
fn what_explain_says_of_a_small_queue_is_what_then_happens() {
    let (runtime, met) = (runtime(), Met::default());
    check(100, &super::tight::tight_traces(60), |trace| {
        let store = MemoryStore::new();
        runtime.block_on(holds(&store, &store, &trace.kept(), &met))
    });
    let met = met.into_inner();
    assert!(met.contains_key("refused:capacity_exhausted"), "{met:?}");
    assert!(met.contains_key("gate capacity ends"), "{met:?}");
}

/// Without ends to be met the property would hold of anything.
#[test]
fn generated_worlds_meet_every_end_that_explain_states() {
    let (runtime, met) = (runtime(), Met::default());
    let mut runner = TestRunner::deterministic();
    for _ in 0..60 {
        let trace = traces(60).new_tree(&mut runner).unwrap().current().kept();
        let store = MemoryStore::new();
        runtime.block_on(holds(&store, &store, &trace, &met)).unwrap();
    }
    let met = met.into_inner();
    assert_met(
        &met,
        &[
            ("queued", 100),
            ("coalesced", 50),
            ("deduplicated:windowed", 20),
            ("refused:allowance_exhausted", 20),
            ("no_wake:assignee_unchanged", 5),
            ("answer ends", 100),
            ("gate coalesce ends", 50),
            ("gate duplicate ends", 20),
            ("gate allowance ends", 20),
            ("a slot frees", 100),
        ],
    );
}

#[test]
fn what_explain_says_is_what_then_happens_where_the_count_cannot_be_read() {
    let (runtime, met) = (runtime_without_waits(), Met::default());
    check(60, &uncounted_traces(60), |trace| {
        let store = MemoryStore::new();
        runtime.block_on(holds(&store, &store, &trace.kept(), &met))
    });
    assert!(met.into_inner().contains_key("queued/count_read_failed"));
}

#[test]
fn what_explain_says_is_what_then_happens_with_gates_in_shadow() {
    let (runtime, met) = (runtime(), Met::default());
    check(60, &shadowed_traces(60), |trace| {
        let store = MemoryStore::new();
        runtime.block_on(holds(&store, &store, &trace.kept(), &met))
    });
    assert!(met.into_inner().contains_key("would refuse"));
}

#[test]
fn what_explain_says_is_what_then_happens_on_sqlite() {
    let runtime = runtime();
    let case = runtime.block_on(case::sqlite());
    holds_on(&runtime, &case, 6);
}

#[test]
fn what_explain_says_is_what_then_happens_on_postgres() {
    let runtime = runtime();
    let case = runtime.block_on(case::postgres());
    holds_on(&runtime, &case, 4);
}

fn holds_on<S: Store>(runtime: &Runtime, case: &Case<S>, cases: u32) {
    let _within = runtime.enter();
    let (store, met) = (&case.world.bench.store, Met::default());
    check(cases, &traces(60), |trace| runtime.block_on(holds(store, &case.outside, &trace, &met)));
}

/// Explains each event at the instant at which it is then worked.
async fn holds<S: Store, H: Hands>(
    store: &S,
    hands: &H,
    trace: &Trace,
    met: &Met,
) -> Result<(), String> {
    let mut play = Play::new(store.clone(), hands, trace).await;
    let mut latest = UtcMicros::from_micros(i64::MIN);
    for step in &trace.steps {
        let index = match step {
            Step::Event(index) => *index,
            Step::Control(control) => {
                hands.apply(control).await;
                continue;
            }
            Step::Redeliver(_) => continue,
        };
        let delivery = play.deliveries[index].clone();
        let at = request_instant(
            play.world.cursor.decided_instant,
            UtcMicros::from_nanos(delivery.message.stored_at_nanos),
        );
        let rules = Rules {
            shadows: play.world.bench.shadows,
            ceilings: play.world.bench.options.ceilings,
        };
        let explanation = at_instant(store, &delivery, at, rules).await;
        // A row that is dated later is something else that happens.
        if latest <= at {
            ends(store, &delivery, &explanation, rules, met)
                .await
                .map_err(|what| format!("event {index}: {what}"))?;
        }
        let happened = play.world.work(&[delivery]).await.remove(0);
        *met.borrow_mut().entry(brief(&happened)).or_default() += 1;
        if happened.get("would_refuse").is_some() {
            *met.borrow_mut().entry("would refuse".to_owned()).or_default() += 1;
        }
        let (said, happened) = (json::object(&explanation)["outcome"].take(), knowable(happened));
        if said != happened {
            return Err(format!("event {index}\n  said {said}\n   was {happened}"));
        }
        latest = latest.max(at);
    }
    Ok(())
}

/// What the configuration says.
#[derive(Clone, Copy)]
struct Rules {
    shadows: Shadows,
    ceilings: Option<Ceilings>,
}

async fn at_instant<S: Store>(
    store: &S,
    delivery: &Delivery,
    at: UtcMicros,
    rules: Rules,
) -> Explanation {
    let stored = delivery.message.subject.strip_prefix("wakes.0.").unwrap();
    let body = std::str::from_utf8(&delivery.message.body).unwrap();
    let message = message(&format!("wakes.{stored}"), body, at);
    explain(store, &message, rules.shadows, rules.ceilings).await
}

/// The record without what nothing could say before.
fn knowable(mut record: Value) -> Value {
    let fields = record.as_object_mut().unwrap();
    let own = fields.get("run_id") == fields.get("wake_id");
    for field in ["wake_id", "stream", "stream_sequence", "decided_at"] {
        fields.remove(field).unwrap();
    }
    if let Some(overload) = fields.get_mut("overload").and_then(Value::as_object_mut) {
        for field in ["at", "component", "correlation_id", "retry_after_seconds"] {
            overload.remove(field);
        }
    }
    if own {
        fields.remove("run_id");
    }
    record
}

/// Before each stated end the answer is the same, at it another one; what has no end stays.
async fn ends<S: Store>(
    store: &S,
    delivery: &Delivery,
    explanation: &Explanation,
    rules: Rules,
    met: &Met,
) -> Result<(), String> {
    let Told::Wake { walk: now, .. } = &explanation.told else { return Ok(()) };
    let mut instants = vec![1, 5 * SECOND, 10 * MINUTE, 24 * 60 * MINUTE, 72 * 60 * MINUTE]
        .into_iter()
        .map(|micros| UtcMicros::from_micros(explanation.at.micros() + micros))
        .collect::<Vec<_>>();
    let lines = now.gates.iter();
    let stated =
        lines.filter_map(|line| line.changes_at).chain(now.changes_at).chain(frees_at(now));
    for end in stated {
        let middle = i64::midpoint(explanation.at.micros(), end.micros());
        instants.extend([middle, end.micros() - 1, end.micros()].map(UtcMicros::from_micros));
    }
    instants.retain(|instant| *instant > explanation.at);
    for instant in instants {
        let later = at_instant(store, delivery, instant, rules).await;
        let Told::Wake { walk: later, .. } = &later.told else { unreachable!("the same event") };
        compare(now, later, instant, met)?;
    }
    Ok(())
}

fn compare(now: &Walk, later: &Walk, instant: UtcMicros, met: &Met) -> Result<(), String> {
    let met = |what: String| *met.borrow_mut().entry(what).or_default() += 1;
    let says = |what: &str, end: Option<UtcMicros>, same: bool| match end {
        Some(end) if instant == end && same => {
            Err(format!("{what} does not end at {end}: {now:#?}"))
        }
        Some(end) if instant < end && !same => {
            Err(format!("{what} ends before {end}, at {instant}: {now:#?}"))
        }
        None if !same => Err(format!("{what} ends at {instant}, unannounced: {now:#?}")),
        _ => Ok(()),
    };
    let (Ok(answer), Ok(answer_later)) = (&now.answer, &later.answer) else { return Ok(()) };
    if now.changes_at == Some(instant) {
        met("answer ends".to_owned());
    }
    says("the answer", now.changes_at, same_decision(answer, answer_later))?;
    for (line, later) in now.gates.iter().zip(&later.gates) {
        let reached = |line: &GateLine| line.conclusion != Conclusion::NotReached;
        if !reached(line) || !reached(later) {
            continue;
        }
        let same = match (&line.conclusion, &later.conclusion) {
            (Conclusion::Concludes(one), Conclusion::Concludes(other)) => same_decision(one, other),
            (Conclusion::WouldRefuse(one), Conclusion::WouldRefuse(other)) => {
                let [one, other] = [one, other].map(|refusal| Decision::Refuse(refusal.clone()));
                same_decision(&one, &other)
            }
            (one, other) => one == other,
        };
        if line.changes_at == Some(instant) {
            met(format!("gate {} ends", line.gate.as_str()));
        }
        says(line.gate.as_str(), line.changes_at, same)?;
    }
    if let (Some(used), Some(used_later), Some(frees_at)) = (used(now), used(later), frees_at(now))
    {
        if instant == frees_at {
            met("a slot frees".to_owned());
        }
        says("the count", Some(frees_at), used == used_later)?;
    }
    Ok(())
}

fn allowance(walk: &Walk, value: &str) -> Option<Value> {
    let line = walk.gates.iter().find(|line| line.gate == GateName::Allowance)?;
    line.sight.as_ref()?.values.get(value).cloned()
}

fn used(walk: &Walk) -> Option<u64> {
    allowance(walk, "used")?.as_u64()
}

fn frees_at(walk: &Walk) -> Option<UtcMicros> {
    let at = allowance(walk, "slot_frees_at")?;
    Some(UtcMicros::from_micros(super::play::micros(at.as_str().unwrap())))
}
