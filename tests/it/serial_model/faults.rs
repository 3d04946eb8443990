//! Batches whose reads and records fail on the way: they hold, recover, and decide as their wakes
//! would have one at a time.

use proptest::collection::vec;
use proptest::prelude::*;
use wakegate::admission::GateName;
use wakegate::store::memory::{MemoryStore, RecordFailure};

use super::generate::uncounted_traces;
use super::play::{Cuts, Play, difference};
use super::trace::{Control, Step, Trace};
use super::{check, cuts, runtime_without_waits};

/// What fails during a batch.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Nothing,
    /// So many reads for a gate. The allowance reads once more before it opens.
    Read(GateName, u32),
    /// So many records, before anything is durable.
    Record(usize),
}

fn fault() -> impl Strategy<Value = Fault> {
    let holding = prop_oneof![
        Just(GateName::Identity),
        Just(GateName::AgentStatus),
        Just(GateName::Pause),
        Just(GateName::Duplicate),
        Just(GateName::Coalesce),
    ];
    prop_oneof![
        2 => Just(Fault::Nothing),
        4 => (holding, 1_u32..4).prop_map(|(gate, times)| Fault::Read(gate, times)),
        1 => Just(Fault::Read(GateName::Allowance, 1)),
        1 => (1_usize..4).prop_map(Fault::Record),
    ]
}

#[test]
fn batches_that_hold_and_recover_equal_the_serial_model() {
    let runtime = runtime_without_waits();
    let strategy = (uncounted_traces(60), cuts(), vec(fault(), 1..20));
    check(200, &strategy, |(trace, cuts, faults)| {
        let trace = trace.kept();
        runtime.block_on(agrees_in_spite_of(&trace, &cuts, &faults))
    });
}

async fn agrees_in_spite_of(trace: &Trace, cuts: &Cuts, faults: &[Fault]) -> Result<(), String> {
    let store = MemoryStore::new();
    let mut play = Play::new(store.clone(), &store, trace).await;
    let mut next = faults.iter().cycle();
    let counts_fail =
        trace.steps.iter().any(|step| matches!(step, Step::Control(Control::Count { .. })));
    let failing = store.clone();
    play.disturb = Box::new(move || match *next.next().expect("an endless cycle") {
        Fault::Nothing => {}
        // Where the trace itself makes the count fail it is left to it.
        Fault::Read(GateName::Allowance, _) if counts_fail => {}
        Fault::Read(gate, times) => failing.fail_times(gate, times),
        Fault::Record(times) => failing.fail_records(&vec![RecordFailure::BeforeCommit; times]),
    });
    let expected = play.expected();
    let actual = play.run(&expected, cuts).await?;
    difference(&expected, &actual)?;
    play.run_again(&actual, cuts).await.map_err(|what| format!("again: {what}"))
}
