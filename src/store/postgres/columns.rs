//! A payload and the columns read from it, always written together.

use super::session::Prepared;
use crate::wake::{ActorId, ActorType, Payload, TaskField, TaskId};

/// Arrays of one column each: the only way a payload gets into a statement, so that no column can
/// say what its payload does not.
#[derive(Default)]
pub(super) struct PayloadColumns<'a> {
    payload: Vec<&'a str>,
    task_id: Vec<Option<&'a str>>,
    task_unusable: Vec<bool>,
    actor_type: Vec<Option<&'a str>>,
    actor_id: Vec<Option<&'a str>>,
}

impl<'a> PayloadColumns<'a> {
    pub(super) fn of(payloads: impl Iterator<Item = &'a Payload>) -> Self {
        let mut columns = Self::default();
        for payload in payloads {
            columns.payload.push(payload.text());
            columns.task_id.push(payload.task().task().map(TaskId::as_str));
            columns.task_unusable.push(*payload.task() == TaskField::Unusable);
            columns.actor_type.push(payload.actor_type().map(ActorType::as_str));
            columns.actor_id.push(payload.actor_id().map(ActorId::as_str));
        }
        columns
    }

    /// Binds `payload, task_id, task_unusable, actor_type, actor_id`: a row of `runs`.
    pub(super) fn bind_run(self, query: Prepared) -> Prepared {
        query
            .bind(self.payload)
            .bind(self.task_id)
            .bind(self.task_unusable)
            .bind(self.actor_type)
            .bind(self.actor_id)
    }

    /// Binds `payload, actor_type, actor_id`: a row of `merged_wakes`.
    pub(super) fn bind_merged(self, query: Prepared) -> Prepared {
        query.bind(self.payload).bind(self.actor_type).bind(self.actor_id)
    }
}
