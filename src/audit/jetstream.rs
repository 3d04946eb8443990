//! The audit log on JetStream: publishes pipelined, every acknowledgement awaited.

use std::str::FromStr;
use std::time::Duration;

use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::{self, Context, ErrorCode, context};
use async_nats::{HeaderMap, HeaderValue, Subject};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::{AuditError, AuditEvent, AuditLog, Audited, cut};
use crate::store::Recorded;

/// Events on their way at once. The context allows more, but a lane must not take it all.
const EVENTS_IN_FLIGHT_MAX: usize = 512;

/// Publishes to the stream that holds `wake-audit.>`.
#[derive(Debug, Clone)]
pub struct JetStreamAudit {
    context: Context,
    deadline: Duration,
}

/// One event was not stored.
enum Fault {
    /// The stream or the server does not take messages of this size: cut it.
    TooLarge(String),
    /// Anything else: hold.
    Unavailable(String),
}

impl JetStreamAudit {
    /// `deadline` bounds the publishing of one batch as a whole; `context` bounds each
    /// acknowledgement.
    #[must_use]
    pub fn new(context: Context, deadline: Duration) -> Self {
        Self { context, deadline }
    }

    async fn publish_all(&self, events: &[AuditEvent]) -> Result<(), AuditError> {
        let mut waiting = events.iter();
        let mut in_flight = FuturesUnordered::new();
        loop {
            while in_flight.len() < EVENTS_IN_FLIGHT_MAX
                && let Some(event) = waiting.next()
            {
                in_flight.push(self.publish_one(event));
            }
            match in_flight.next().await {
                Some(stored) => stored?,
                None => return Ok(()),
            }
        }
    }

    /// Publishes one event, cut shorter until it fits: an event that is too large is so at every
    /// attempt, and a lane must not wait for it for ever.
    async fn publish_one(&self, event: &AuditEvent) -> Result<(), AuditError> {
        let mut record = Bytes::copy_from_slice(event.record.as_bytes());
        let mut shorter = None;
        loop {
            match self.send(event, record).await {
                Ok(()) => return Ok(()),
                Err(Fault::Unavailable(error)) => return Err(AuditError { error }),
                Err(Fault::TooLarge(error)) => {
                    let forms = shorter.get_or_insert_with(|| cut::shorter(&event.record));
                    let Some(form) = forms.next() else { return Err(AuditError { error }) };
                    record = Bytes::from(form);
                }
            }
        }
    }

    async fn send(&self, event: &AuditEvent, record: Bytes) -> Result<(), Fault> {
        let message_id = HeaderValue::from_str(&event.message_id())
            .map_err(|error| Fault::Unavailable(format!("the message id is no header: {error}")))?;
        let subject = Subject::validated(event.subject())
            .map_err(|error| Fault::Unavailable(format!("{:?}: {error}", event.subject())))?;
        let mut headers = HeaderMap::new();
        headers.insert(NATS_MESSAGE_ID, message_id);
        let sent = self.context.publish_with_headers(subject, headers, record).await;
        // A repeat is answered as such, which is as good: it is stored.
        sent.map_err(|error| fault(&error))?.await.map(drop).map_err(|error| fault(&error))
    }
}

impl AuditLog for JetStreamAudit {
    async fn publish(
        &self,
        recorded: Recorded,
        events: &[AuditEvent],
    ) -> Result<Audited, (Recorded, AuditError)> {
        let published = tokio::time::timeout(self.deadline, self.publish_all(events)).await;
        match published {
            Ok(Ok(())) => Ok(Audited::after_acknowledgement(recorded)),
            Ok(Err(error)) => Err((recorded, error)),
            Err(_elapsed) => {
                let error = format!("not acknowledged within {:?}", self.deadline);
                Err((recorded, AuditError { error }))
            }
        }
    }
}

fn fault(error: &context::PublishError) -> Fault {
    use context::PublishErrorKind as Kind;
    match error.kind() {
        Kind::MaxPayloadExceeded => Fault::TooLarge(error.to_string()),
        Kind::StreamNotFound => Fault::Unavailable(
            "no stream takes wake-audit.>; run: wakegate streams apply".to_owned(),
        ),
        Kind::TimedOut => Fault::Unavailable(
            "no acknowledgement in time: the server is away, too slow, or this user may not \
             publish to wake-audit.>"
                .to_owned(),
        ),
        _ => match refusal(error) {
            Some(refused) if refused.error_code() == ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM => {
                Fault::TooLarge(refused.to_string())
            }
            Some(refused) if refused.error_code() == ErrorCode::STREAM_STORE_FAILED => {
                Fault::Unavailable(format!("the stream is full: {refused}"))
            }
            Some(refused) => Fault::Unavailable(refused.to_string()),
            None => Fault::Unavailable(error.to_string()),
        },
    }
}

/// The server's own answer, where the publish came so far.
fn refusal(error: &context::PublishError) -> Option<&jetstream::Error> {
    std::error::Error::source(error)?.downcast_ref()
}
