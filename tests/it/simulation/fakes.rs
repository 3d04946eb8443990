//! The simulated store and audit log on a calm day: what the contract suites run against.

use std::sync::Arc;

use wakegate::shutdown::Shutdown;
use wakegate::store::memory::MemoryStore;

use super::audit::SimAudit;
use super::plan::Plan;
use super::store::SimStore;
use super::worker::Me;
use super::world::World;

/// A world in which nothing fails, and one worker of it.
fn calm() -> (World, Me) {
    let plan = Arc::new(Plan::nothing());
    let world = World::new(0, plan, false, 1);
    world.with(|inside| {
        inside.calm_down();
        inside.begin(0, &Shutdown::new());
    });
    (world, Me { worker: 0, life: 1, lane: 0 })
}

/// A store, and what it keeps its rows in.
pub fn store() -> (SimStore, MemoryStore) {
    let (world, me) = calm();
    let store = SimStore::new(world, me);
    let memory = store.memory().clone();
    (store, memory)
}

/// An audit log. [`World`] tells what it holds.
pub fn audit() -> (SimAudit, World) {
    let (world, me) = calm();
    (SimAudit::new(world.clone(), me), world)
}
