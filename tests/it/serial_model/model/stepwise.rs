//! The model one step at a time, for whoever learns only on the way what happens next.

use super::room::Full;
use super::{Model, Row, Task, string_of, task_of};
use crate::serial_model::answer::Answer;
use crate::serial_model::trace::{Event, Scope};

impl Model {
    /// A world in which nothing has happened; the ids of the wakes are by event.
    pub fn new(ids: Vec<u128>) -> Self {
        Self { given: vec![None; ids.len()], ids, ..Self::default() }
    }

    /// The same with gates in shadow: agent status, pause, allowance, capacity.
    #[must_use]
    pub fn with_shadows(self, in_shadow: [bool; 4]) -> Self {
        Self { in_shadow, ..self }
    }

    /// What operators say: the status of those agents that have one, and the pauses in force.
    pub fn operators(
        &mut self,
        agents: Vec<(String, String, &'static str)>,
        pauses: Vec<(String, Scope)>,
    ) {
        self.agents = agents;
        self.pauses = pauses;
    }

    /// The next event of a lane; its count may not be readable.
    pub fn next(&mut self, lane: u32, index: usize, event: &Event, countable: bool) -> Answer {
        self.lane = lane;
        self.uncounted = !countable;
        self.event(index, event)
    }

    /// What is full for the next event, should it want room; only its lane knows.
    pub fn room_is(&mut self, full: Option<(String, u64, u32)>) {
        self.told = Some(full.map_or(Full::Nothing, |(boundary, depth, capacity)| {
            Full::Boundary(boundary, depth, capacity)
        }));
    }

    /// The next event of a lane is none that decides anything.
    pub fn pass(&mut self, lane: u32, stored_at: i64) {
        self.lane = lane;
        self.instant(stored_at);
    }

    /// Somebody moves the run of an event.
    pub fn set_status(&mut self, event: usize, status: &'static str) {
        for run in &mut self.runs {
            if run.wake == event {
                run.status = status;
            }
        }
    }

    /// Every run, in order of the events that made them.
    pub fn all_rows(&self) -> Vec<Row> {
        self.rows()
    }

    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self
            .runs
            .iter()
            .map(|run| Row {
                run: run.wake,
                organization: run.organization.clone(),
                agent: run.agent.clone(),
                status: run.status.to_owned(),
                payload: run.payload.clone(),
                task: match task_of(&run.payload) {
                    Task::Named(task) => Some(task),
                    Task::None | Task::Odd => None,
                },
                actor_type: string_of(&run.payload, "actor_type"),
                actor_id: string_of(&run.payload, "actor_id"),
                key: run.key.clone(),
                coalesced_count: run.coalesced_count,
                degraded: run.degraded.clone(),
                requested_at: run.at,
            })
            .collect();
        rows.sort_by_key(|row| row.run);
        rows
    }
}
