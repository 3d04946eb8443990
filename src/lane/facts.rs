//! Reads the world once for a batch: only what its wakes can need, each gate's read on its own.

use std::collections::HashMap;

use crate::admission::facts::{
    CountedRuns, Fact, Facts, MergeBucket, Pauses, QueuedRuns, ReadFailure, Room,
};
use crate::admission::gates::{GateName, allowance};
use crate::admission::limits::Ceilings;
use crate::admission::{OBSERVED_COUNT_MAX, Shadowed};
use crate::store::facts::{FactsAnswer, FactsQuery};
use crate::store::{CountWindow, LaneCursor, RoomQuery, Store, StoreError};
use crate::wake::{Wake, WakeId};

/// What was read.
#[derive(Debug)]
pub struct Loaded {
    /// The facts, failed reads included.
    pub facts: Facts,
    /// What is on record of those of its wakes that gates in shadow would have refused before.
    pub shadowed: HashMap<WakeId, Shadowed>,
    /// The gates whose read failed, once each.
    pub failed: Vec<GateName>,
    /// A read was refused for the data it asked with: a wake of the batch is at fault.
    pub data_fault: Option<String>,
}

/// What else a read depends on.
#[derive(Debug, Clone, Copy)]
pub struct Asking {
    /// After a lost race nothing is taken for granted: gate 0 is asked for all wakes.
    pub doubtful: bool,
    /// The platform's ceilings; without any, nobody asks how full it is.
    pub ceilings: Option<Ceilings>,
    /// Whether how full it is is told to somebody, also where that decides nothing.
    pub told: bool,
}

/// Reads all facts for a batch: in one go where the store does so, otherwise each on its own, side by
/// side, so that each gate's read fails alone.
///
/// Gate 0 is asked only for wakes that can have been decided before, or for all in doubt.
pub async fn load<S: Store>(
    store: &S,
    cursor: LaneCursor,
    wakes: &[&Wake],
    asking: Asking,
) -> Loaded {
    let asked = query(cursor, wakes, asking);
    match store.read_facts(&asked).await {
        Some(answer) => Loaded::of(cursor, answer, asking),
        None => one_by_one(store, cursor, &asked, asking).await,
    }
}

/// The allowance's read is made once more, alone, if it fails; only then is its gate open.
async fn one_by_one<S: Store>(
    store: &S,
    cursor: LaneCursor,
    asked: &FactsQuery<'_>,
    asking: Asking,
) -> Loaded {
    let (identity, shadowed, agents, pauses, keys, queued, room, counted) = tokio::join!(
        unless_empty(&asked.wakes, || store.read_identity(&asked.wakes)),
        unless_empty(&asked.wakes, || store.read_shadowed(&asked.wakes)),
        unless_empty(&asked.agents, || store.read_agents(&asked.agents)),
        unless_empty(&asked.organizations, || store.read_pauses(&asked.organizations)),
        unless_empty(&asked.keys, || store.read_keys(&asked.keys)),
        unless_empty(&asked.merging, || store.read_queued(&asked.merging)),
        unless_empty(&asked.room.organizations, || store.read_room(&asked.room)),
        unless_empty(&asked.windows, || store.read_counted(&asked.windows, asked.runs_max)),
    );
    let counted = match counted {
        Ok(counted) => Ok(counted),
        Err(_) => store.read_counted(&asked.windows, asked.runs_max).await,
    };
    // What was decided is known only where all of it is.
    let (identity, shadowed) = match (identity, shadowed) {
        (Ok(identity), Ok(shadowed)) => (Ok(identity), shadowed),
        (Err(error), _) | (Ok(_), Err(error)) => (Err(error), HashMap::new()),
    };
    let mut sorter = Sorter::default();
    let facts = Facts {
        decided_sequence: cursor.decided_sequence,
        identity: sorter.fact(GateName::Identity, identity),
        agents: sorter.fact(GateName::AgentStatus, agents),
        pauses: sorter.fact(GateName::Pause, pauses),
        keys: sorter.fact(GateName::Duplicate, keys),
        queued: sorter.fact(GateName::Coalesce, queued),
        counted: sorter.fact::<CountedRuns>(GateName::Allowance, counted),
        ceilings: asking.ceilings,
        room: sorter.fact(GateName::Capacity, room),
    };
    Loaded { facts, shadowed, failed: sorter.failed, data_fault: sorter.data_fault }
}

impl Loaded {
    fn of(cursor: LaneCursor, answer: FactsAnswer, asking: Asking) -> Self {
        let facts = Facts {
            agents: Ok(answer.agents),
            pauses: Ok(answer.pauses),
            keys: Ok(answer.keys),
            queued: Ok(answer.queued),
            counted: Ok(answer.counted),
            ceilings: asking.ceilings,
            room: Ok(answer.room),
            // Gate 0 was not asked.
            ..nothing(cursor)
        };
        Self { facts, shadowed: HashMap::new(), failed: Vec::new(), data_fault: None }
    }
}

/// What the wakes of a batch can need, with repetitions; a store asks for each once.
fn query<'w>(cursor: LaneCursor, wakes: &[&'w Wake], asking: Asking) -> FactsQuery<'w> {
    let organization = |wake: &&Wake| wake.organization_id.clone();
    FactsQuery {
        wakes: wakes
            .iter()
            .filter(|wake| asking.doubtful || cursor.may_have_decided(wake.sequence))
            .map(|wake| wake.id)
            .collect(),
        agents: wakes
            .iter()
            .map(|wake| (organization(wake), wake.agent_profile_id.clone()))
            .collect(),
        organizations: wakes.iter().map(organization).collect(),
        keys: wakes
            .iter()
            .filter_map(|wake| wake.occurrence.key().map(|key| (organization(wake), key.clone())))
            .collect(),
        merging: wakes.iter().copied().filter(|wake| MergeBucket::of(wake).is_some()).collect(),
        windows: wakes
            .iter()
            .filter(|wake| allowance::binds(wake))
            .filter_map(|wake| {
                wake.payload.task().task().map(|task| CountWindow {
                    organization_id: organization(wake),
                    task_id: task.clone(),
                    at: wake.requested_at,
                })
            })
            .collect(),
        runs_max: OBSERVED_COUNT_MAX + u32::try_from(wakes.len()).unwrap_or(u32::MAX / 2),
        room: room_query(wakes, asking),
    }
}

fn room_query(wakes: &[&Wake], asking: Asking) -> RoomQuery {
    let Some(ceilings) = asking.ceilings else { return RoomQuery::default() };
    let asked = RoomQuery::of(wakes.iter().copied());
    if asking.told { asked } else { asked.sparing(&ceilings, wakes.len()) }
}

/// A read that no wake needs is not made, and so cannot fail.
async fn unless_empty<T, N, F>(needs: &[N], read: impl FnOnce() -> F) -> Result<T, StoreError>
where
    T: Default,
    F: Future<Output = Result<T, StoreError>>,
{
    if needs.is_empty() { Ok(T::default()) } else { read().await }
}

#[derive(Default)]
struct Sorter {
    failed: Vec<GateName>,
    data_fault: Option<String>,
}

impl Sorter {
    fn fact<T>(&mut self, gate: GateName, read: Result<T, StoreError>) -> Fact<T> {
        read.map_err(|failure| {
            self.failed.push(gate);
            // The allowance is open whatever the cause; every other gate's posture is to hold, and
            // data must never hold.
            if gate != GateName::Allowance
                && let StoreError::Data { error } = &failure
            {
                self.data_fault = Some(error.clone());
            }
            ReadFailure { gate, error: failure.to_string() }
        })
    }
}

/// Facts of a world in which nothing has happened; for tests and for explaining.
#[must_use]
pub fn nothing(cursor: LaneCursor) -> Facts {
    Facts {
        decided_sequence: cursor.decided_sequence,
        identity: Ok(HashMap::new()),
        agents: Ok(HashMap::new()),
        pauses: Ok(Pauses::default()),
        keys: Ok(HashMap::new()),
        queued: Ok(QueuedRuns::default()),
        counted: Ok(CountedRuns::default()),
        ceilings: None,
        room: Ok(Room::default()),
    }
}
