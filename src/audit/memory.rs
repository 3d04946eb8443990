//! The audit log in memory, used in simulations; it passes the same contract suite as the real one.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{AuditError, AuditEvent, AuditLog, Audited};
use crate::store::Recorded;

/// Keeps events in memory; clones share them.
#[derive(Debug, Clone, Default)]
pub struct MemoryAudit {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    events: Vec<AuditEvent>,
    /// Of the events; what has one of these is a repeat.
    message_ids: HashSet<String>,
    fault: Option<String>,
}

impl MemoryAudit {
    /// An empty log that takes events.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Every event stored, in order, repeats dropped.
    #[must_use]
    pub fn events(&self) -> Vec<AuditEvent> {
        self.state().events.clone()
    }

    /// From now on publishing fails with this error, until [`MemoryAudit::recover`].
    pub fn fail(&self, error: &str) {
        self.state().fault = Some(error.to_owned());
    }

    /// From now on publishing works.
    pub fn recover(&self) {
        self.state().fault = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AuditLog for MemoryAudit {
    async fn publish(
        &self,
        recorded: Recorded,
        events: &[AuditEvent],
    ) -> Result<Audited, (Recorded, AuditError)> {
        let mut state = self.state();
        if !events.is_empty()
            && let Some(error) = &state.fault
        {
            return Err((recorded, AuditError { error: error.clone() }));
        }
        for event in events {
            if state.message_ids.insert(event.message_id()) {
                state.events.push(event.clone());
            }
        }
        Ok(Audited::after_acknowledgement(recorded))
    }
}
