//! All that a batch asks of a store, for one that answers it in one go.

use std::collections::HashMap;

use super::{CountWindow, RoomQuery};
use crate::admission::facts::{
    AgentStatus, CountedRuns, KeySightings, Pauses, QueuedRuns, Room, Scoped,
};
use crate::wake::{AgentId, IdempotencyKey, OrganizationId, Wake, WakeId};

/// What is asked; each field as the read of its name takes it. What is empty is not asked.
#[derive(Debug, Default)]
pub struct FactsQuery<'w> {
    /// Gate 0: those that can have been decided before. Hardly any batch has one, and none that does is
    /// answered in one go.
    pub wakes: Vec<WakeId>,
    /// Gate 1.
    pub agents: Vec<Scoped<AgentId>>,
    /// Gate 2.
    pub organizations: Vec<OrganizationId>,
    /// Gates 3 and 7.
    pub keys: Vec<Scoped<IdempotencyKey>>,
    /// Gate 4: those that may merge.
    pub merging: Vec<&'w Wake>,
    /// Gate 5.
    pub windows: Vec<CountWindow>,
    /// Gate 5: most runs of a window.
    pub runs_max: u32,
    /// Gate 6.
    pub room: RoomQuery,
}

/// What was answered, all of one moment.
#[derive(Debug)]
pub struct FactsAnswer {
    /// Gate 1.
    pub agents: HashMap<Scoped<AgentId>, AgentStatus>,
    /// Gate 2.
    pub pauses: Pauses,
    /// Gates 3 and 7.
    pub keys: HashMap<Scoped<IdempotencyKey>, KeySightings>,
    /// Gate 4.
    pub queued: QueuedRuns,
    /// Gate 5.
    pub counted: CountedRuns,
    /// Gate 6.
    pub room: Room,
}
