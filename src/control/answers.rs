//! One request → one reply.

use std::sync::Arc;

use serde::Serialize;
use tokio::sync::Mutex;

use super::body::read;
use super::documents::{ConfigurationRequest, HealthRequest};
use super::error::{ControlError, ErrorCode};
use super::verbs::Verb;
use super::worker::Worker;
use super::{agents, counts, limits, pauses};
use crate::clock::Clock;
use crate::store::control::ControlStore;

/// What answers. Clones share everything.
#[derive(Debug, Clone)]
pub struct Control<S> {
    store: S,
    worker: Worker,
    clock: Clock,
    counting: Arc<Mutex<()>>,
}

impl<S: ControlStore> Control<S> {
    /// On a store of its own: not the one that the lanes use.
    #[must_use]
    pub fn new(store: S, worker: Worker, clock: Clock) -> Self {
        Self { store, worker, clock, counting: Arc::default() }
    }

    /// Answers a request, as the worker with this id.
    ///
    /// # Errors
    /// [`ControlError`] says why not, for programs and for people.
    pub async fn answer(&self, id: &str, verb: Verb, body: &[u8]) -> Result<Vec<u8>, ControlError> {
        let (store, now) = (&self.store, self.clock.now());
        match verb {
            Verb::Pause => written(&pauses::pause(store, read(body)?, now).await?),
            Verb::Resume => written(&pauses::resume(store, read(body)?, now).await?),
            Verb::Pauses => written(&pauses::pauses(store, &read(body)?).await?),
            Verb::AgentSet => written(&agents::set(store, read(body)?, now).await?),
            Verb::AgentGet => written(&agents::get(store, read(body)?).await?),
            Verb::AgentList => written(&agents::list(store, read(body)?).await?),
            Verb::LimitsGet => {
                written(&limits::get(store, self.worker.limits(), read(body)?, now).await?)
            }
            Verb::LimitsSet => {
                written(&limits::set(store, self.worker.limits(), read(body)?, now).await?)
            }
            Verb::Counts => {
                let request = read(body)?;
                // Whole tables are counted: one at a time, and nobody waits in a line for it.
                let Ok(_counting) = self.counting.try_lock() else {
                    let message = "this worker is counting already; ask again";
                    return Err(ControlError::new(ErrorCode::Busy, message));
                };
                written(&counts::counts(store, &request, now).await)
            }
            Verb::Health => {
                let HealthRequest {} = read(body)?;
                written(&self.worker.health(id))
            }
            Verb::Configuration => {
                let ConfigurationRequest {} = read(body)?;
                written(&self.worker.configuration(id))
            }
        }
    }
}

fn written<T: Serialize>(reply: &T) -> Result<Vec<u8>, ControlError> {
    serde_json::to_vec(reply)
        .map_err(|error| ControlError::new(ErrorCode::Unavailable, error.to_string()))
}
