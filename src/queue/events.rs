//! What became of runs, published: the database has an event in the transaction that made it true,
//! and keeps it until the stream has acknowledged it. At least once, and in order as far as nothing
//! fails: whoever cares goes by the fencing token and the instant.

use std::future::IntoFuture as _;
use std::time::Duration;

use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::Context;
use async_nats::{HeaderMap, HeaderValue};
use bytes::Bytes;

use super::documents::RunEventDocument;
use super::work::Work;
use crate::clock::Clock;
use crate::error_text::one_line;
use crate::metrics::{Metrics, RunEventLabel};
use crate::schemas::answered;
use crate::shutdown::Shutdown;
use crate::store::StoreError;
use crate::store::queue::{QueueStore, RunEvent};
use crate::wake::token::token;

/// Events of one round: read together, on their way together, deleted together.
pub const EVENTS_MAX: u32 = 256;
/// What every subject begins with.
pub const SUBJECTS: &str = "run-events";

/// Where an event is published.
#[must_use]
pub fn subject(event: &RunEvent) -> String {
    format!("{SUBJECTS}.{}.{}", token(event.organization_id.as_str()), event.event.as_str())
}

/// The schema of an event.
#[must_use]
pub fn event_schema() -> schemars::Schema {
    answered::<RunEventDocument>()
}

/// Why a round ended before everything was published.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stream.
    #[error("the stream of run events takes nothing: {0}")]
    Stream(String),
}

/// One worker's publisher.
#[derive(Clone)]
pub struct Publisher<S> {
    /// Where events are kept.
    pub store: S,
    /// Where they go.
    pub context: Context,
    /// How long one round of acknowledgements may take.
    pub deadline: Duration,
    /// How often to look although nobody says that there is something.
    pub interval: Duration,
    /// How old they are.
    pub clock: Clock,
    /// Where it is announced that there is something to be told.
    pub told: Work,
    /// What is counted.
    pub metrics: Metrics,
}

impl<S: QueueStore> Publisher<S> {
    /// Publishes until the worker is to end; then what there is is left to others.
    pub async fn run(self, shutdown: Shutdown) {
        let mut told = self.told.listen();
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut failing = false;
        loop {
            tokio::select! {
                biased;
                () = shutdown.requested() => return,
                // While the stream takes nothing, a signal more is no reason to try again.
                Ok(()) = told.changed(), if !failing => {}
                _ = ticks.tick() => {}
            }
            let published = tokio::select! {
                biased;
                published = self.publish_all() => published,
                // What is on its way may be published again by somebody else, which is known by its id.
                () = shutdown.requested() => return,
            };
            if let Err(fault) = &published {
                if let Fault::Stream(_) = fault {
                    self.metrics.run_event_failed();
                }
                if !failing {
                    tracing::warn!(error = one_line(fault), "run events wait");
                }
            }
            failing = published.is_err();
        }
    }

    /// Publishes everything that there is.
    ///
    /// # Errors
    /// What is left stays, and is tried again.
    pub async fn publish_all(&self) -> Result<(), Fault> {
        loop {
            let events = self.store.take_events(EVENTS_MAX).await?;
            let oldest = events.first().map(|event| self.clock.now().since(event.at));
            self.metrics.set_run_events_oldest(oldest.unwrap_or_default());
            if events.is_empty() {
                return Ok(());
            }
            let (published, fault) = self.publish(&events).await;
            if !published.is_empty() {
                self.store.delete_events(&published).await?;
            }
            if let Some(fault) = fault {
                return Err(Fault::Stream(fault));
            }
        }
    }

    /// Sends them one behind the other and waits for each acknowledgement; the ids of those that the
    /// stream has, and what became of the first that it has not.
    async fn publish(&self, events: &[RunEvent]) -> (Vec<i64>, Option<String>) {
        let mut on_their_way = Vec::with_capacity(events.len());
        let mut fault = None;
        for event in events {
            match self.send(event).await {
                Ok(acknowledgement) => on_their_way.push((event, acknowledgement)),
                Err(error) => {
                    fault = Some(error);
                    break;
                }
            }
        }
        let mut published = Vec::with_capacity(on_their_way.len());
        let end = tokio::time::Instant::now() + self.deadline;
        for (event, acknowledgement) in on_their_way {
            match tokio::time::timeout_at(end, acknowledgement.into_future()).await {
                Ok(Ok(_)) => {
                    self.metrics.run_event_published(RunEventLabel::of(event.event.as_str()));
                    published.push(event.id);
                }
                Ok(Err(error)) => fault = fault.or_else(|| Some(one_line(&error))),
                Err(_elapsed) => {
                    let text = || format!("no acknowledgement within {:?}", self.deadline);
                    fault = fault.or_else(|| Some(text()));
                }
            }
        }
        (published, fault)
    }

    async fn send(
        &self,
        event: &RunEvent,
    ) -> Result<async_nats::jetstream::context::PublishAckFuture, String> {
        let mut headers = HeaderMap::new();
        let id = event.message_id().parse::<HeaderValue>();
        headers.insert(NATS_MESSAGE_ID, id.map_err(|error| one_line(&error))?);
        // Rows may be written by others: what is no header is left out.
        let trace = event.traceparent.as_deref().map(str::parse::<HeaderValue>);
        if let Some(Ok(trace)) = trace {
            headers.insert("traceparent", trace);
        }
        let body = RunEventDocument::from(event);
        let body = serde_json::to_vec(&body).map_err(|error| error.to_string())?;
        let sent = self.context.publish_with_headers(subject(event), headers, Bytes::from(body));
        sent.await.map_err(|error| one_line(&error))
    }
}
