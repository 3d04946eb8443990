//! A lane's consumer on a real JetStream.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::consumer::pull::{MessagesErrorKind, Stream};
use async_nats::jetstream::context::{ConsumerInfoError, ConsumerInfoErrorKind};
use async_nats::jetstream::{AckKind, Context, ErrorCode};
use async_nats::{HeaderMap, Subject};
use bytes::Bytes;
use futures_util::StreamExt as _;

use super::{BrokerError, Delivery, LaneConsumer, LaneFeed, LaneInfo, StreamView, Verdict, stream};
use crate::audit::AckPermit;
use crate::error_text::one_line;
use crate::metrics::{Metrics, Violation};
use crate::wake::UtcMicros;
use crate::wake::decode::Message;

/// The priority group of every lane consumer (`streams/lane-consumer.json`).
pub const PRIORITY_GROUP: &str = "lane";
/// How long one pull request waits at the server. Only a new pull renews the pin, so this is well
/// below the pin timeout.
pub const PULL_EXPIRES: Duration = Duration::from_secs(1);
/// Asks for the outcome.
pub const OUTCOME_TO_HEADER: &str = "Wakegate-Outcome-To";
const TRACEPARENT_HEADER: &str = "traceparent";
const TRACESTATE_HEADER: &str = "tracestate";

/// One lane's pull consumer.
#[derive(Debug, Clone)]
pub struct JetStreamLane {
    context: Context,
    stream: Arc<str>,
    lane: u32,
    consumer: Arc<str>,
    batch_wakes_max: usize,
    batch_bytes_max: usize,
    metrics: Metrics,
}

impl JetStreamLane {
    /// The consumer `lane-<n>` of a stream; nothing is asked of the server yet.
    #[must_use]
    pub fn new(
        context: Context,
        stream: &str,
        lane: u32,
        batch_wakes_max: usize,
        batch_bytes_max: usize,
        metrics: Metrics,
    ) -> Self {
        Self {
            context,
            stream: Arc::from(stream),
            lane,
            consumer: Arc::from(format!("lane-{lane}")),
            batch_wakes_max,
            batch_bytes_max,
            metrics,
        }
    }

    /// Sequences from `first` on that the stream issued and no longer has, the first ones of the
    /// stream aside.
    ///
    /// # Errors
    /// See [`BrokerError`].
    pub async fn removed_from(&self, first: u64) -> Result<Vec<u64>, BrokerError> {
        stream::removed_from(&self.context, &self.stream, first).await
    }

    async fn send(&self, reply: &str, kind: AckKind) -> Result<(), BrokerError> {
        let body = Bytes::from(kind);
        self.context
            .client()
            .publish(Subject::from(reply), body)
            .await
            .map_err(|error| BrokerError::Unavailable { error: one_line(&error) })
    }

    fn gone(&self) -> BrokerError {
        BrokerError::Gone { what: format!("consumer {} of stream {}", self.consumer, self.stream) }
    }

    fn classify(&self, error: &ConsumerInfoError) -> BrokerError {
        match error.kind() {
            ConsumerInfoErrorKind::NotFound | ConsumerInfoErrorKind::StreamNotFound => self.gone(),
            ConsumerInfoErrorKind::JetStream(error)
                if matches!(
                    error.error_code(),
                    ErrorCode::STREAM_NOT_FOUND | ErrorCode::CONSUMER_NOT_FOUND
                ) =>
            {
                self.gone()
            }
            _ => BrokerError::Unavailable { error: one_line(error) },
        }
    }
}

impl LaneConsumer for JetStreamLane {
    type Feed = JetStreamFeed;

    async fn open(&self) -> Result<JetStreamFeed, BrokerError> {
        let unavailable = |error: String| BrokerError::Unavailable { error };
        // Asked for by info first, so that a consumer that is gone is told from a server that is
        // away.
        self.info().await?;
        let consumer: PullConsumer = self
            .context
            .get_consumer_from_stream(&*self.consumer, &*self.stream)
            .await
            .map_err(|error| unavailable(one_line(&error)))?;
        let messages = consumer
            .stream()
            .group(PRIORITY_GROUP)
            .max_messages_per_batch(self.batch_wakes_max)
            .max_bytes_per_batch(self.batch_bytes_max)
            .expires(PULL_EXPIRES)
            .messages()
            .await
            .map_err(|error| unavailable(one_line(&error)))?;
        Ok(JetStreamFeed {
            messages,
            stream: Arc::clone(&self.stream),
            gone: self.gone(),
            metrics: self.metrics.clone(),
        })
    }

    async fn info(&self) -> Result<LaneInfo, BrokerError> {
        let subject = format!("CONSUMER.INFO.{}.{}", self.stream, self.consumer);
        let response: async_nats::jetstream::response::Response<
            async_nats::jetstream::consumer::Info,
        > = self
            .context
            .request(subject, &serde_json::json!({}))
            .await
            .map_err(|error| BrokerError::Unavailable { error: one_line(&error) })?;
        let info = match response {
            async_nats::jetstream::response::Response::Ok(info) => info,
            async_nats::jetstream::response::Response::Err { error } => {
                return Err(self.classify(&ConsumerInfoError::from(error)));
            }
        };
        Ok(LaneInfo {
            pending: info.num_pending,
            unacknowledged: info.num_ack_pending as u64,
            ack_floor: info.ack_floor.stream_sequence,
            delivered: info.delivered.stream_sequence,
            last_delivery: info.delivered.consumer_sequence,
            waiting: info.num_waiting as u64,
            pin_id: info
                .priority_groups
                .into_iter()
                .find(|group| group.group == PRIORITY_GROUP)
                .and_then(|group| group.pinned_client_id)
                .filter(|pin| !pin.is_empty())
                .map(Arc::from),
        })
    }

    async fn stream(&self) -> Result<StreamView, BrokerError> {
        stream::view(&self.context, &self.stream).await
    }

    async fn next_after(&self, sequence: u64) -> Result<Option<u64>, BrokerError> {
        stream::next_after(&self.context, &self.stream, self.lane, sequence).await
    }

    async fn progress(&self, delivery: &Delivery) -> Result<(), BrokerError> {
        self.send(&delivery.reply, AckKind::Progress).await
    }

    async fn give_back(&self, delivery: &Delivery) -> Result<(), BrokerError> {
        self.send(&delivery.reply, AckKind::Nak(None)).await
    }

    async fn acknowledge(
        &self,
        delivery: &Delivery,
        verdict: Verdict,
        permit: AckPermit<'_>,
    ) -> Result<(), BrokerError> {
        debug_assert_eq!(permit.wake_id(), delivery.wake_id(), "a permit is for one wake");
        let kind = match verdict {
            Verdict::Done => AckKind::Ack,
            Verdict::Terminate => AckKind::Term,
        };
        self.send(&delivery.reply, kind).await
    }

    async fn tell(&self, subject: &str, record: String) {
        if let Err(error) =
            self.context.client().publish(Subject::from(subject), record.into()).await
        {
            tracing::debug!(error = %one_line(&error), "an outcome reply was not sent");
        }
    }

    async fn flush(&self) -> Result<(), BrokerError> {
        self.context
            .client()
            .flush()
            .await
            .map_err(|error| BrokerError::Unavailable { error: one_line(&error) })
    }

    async fn unpin(&self) -> Result<(), BrokerError> {
        let subject = format!("CONSUMER.UNPIN.{}.{}", self.stream, self.consumer);
        let response: async_nats::jetstream::response::Response<serde::de::IgnoredAny> = self
            .context
            .request(subject, &serde_json::json!({ "group": PRIORITY_GROUP }))
            .await
            .map_err(|error| BrokerError::Unavailable { error: one_line(&error) })?;
        match response {
            async_nats::jetstream::response::Response::Ok(_) => Ok(()),
            async_nats::jetstream::response::Response::Err { error } => {
                Err(BrokerError::Unavailable { error: error.to_string() })
            }
        }
    }
}

/// The pull stream of a lane.
pub struct JetStreamFeed {
    messages: Stream,
    stream: Arc<str>,
    gone: BrokerError,
    metrics: Metrics,
}

impl LaneFeed for JetStreamFeed {
    async fn next(&mut self) -> Result<Delivery, BrokerError> {
        let message = match self.messages.next().await {
            Some(Ok(message)) => message,
            Some(Err(error)) if error.kind() == MessagesErrorKind::ConsumerDeleted => {
                return Err(self.gone.clone());
            }
            Some(Err(error)) => return Err(BrokerError::Unavailable { error: one_line(&error) }),
            None => {
                return Err(BrokerError::Unavailable { error: "the pull stream ended".to_owned() });
            }
        };
        let foreign = message.headers.as_ref().is_some_and(|h| has_foreign_id(h, &message.subject));
        let delivery =
            delivery(&self.stream, message).map_err(|error| BrokerError::Unavailable { error })?;
        if foreign && delivery.deliveries == 1 {
            self.metrics.contract_violation(Violation::MessageId);
        }
        Ok(delivery)
    }
}

fn delivery(
    stream: &Arc<str>,
    message: async_nats::jetstream::Message,
) -> Result<Delivery, String> {
    let (stored_at_nanos, sequence, consumer_sequence, deliveries, pending) = {
        let info = message.info().map_err(|error| one_line(&*error))?;
        (
            info.published.unix_timestamp_nanos(),
            info.stream_sequence,
            info.consumer_sequence,
            u64::try_from(info.delivered).unwrap_or(1),
            info.pending,
        )
    };
    let message = message.message;
    let headers = message.headers.as_ref();
    let reply = message.reply.as_deref().ok_or("a delivery without a reply subject")?;
    let traceparent = header(headers, TRACEPARENT_HEADER);
    // Without the one it says nothing.
    let tracestate = traceparent.as_ref().and_then(|_| header(headers, TRACESTATE_HEADER));
    Ok(Delivery {
        consumer_sequence,
        deliveries,
        pending,
        // A publisher may set this header too; the server's own comes last.
        pin_id: headers
            .and_then(|headers| headers.get_last(async_nats::header::NATS_PIN_ID))
            .map(|pin| Arc::from(pin.as_str())),
        reply: Arc::from(reply),
        message: Message {
            stream: Arc::clone(stream),
            sequence,
            stored_at_nanos,
            requested_at: UtcMicros::from_nanos(stored_at_nanos),
            subject: Arc::from(message.subject.as_str()),
            traceparent,
            tracestate,
            outcome_to: header(headers, OUTCOME_TO_HEADER),
            body: message.payload,
        },
    })
}

fn header(headers: Option<&HeaderMap>, name: &str) -> Option<Arc<str>> {
    headers.and_then(|headers| headers.get(name)).map(|value| Arc::from(value.as_str()))
}

/// Whether there is a message id that does not begin with the organization's token of the subject,
/// `wakes.<partition>.<producer>.<organization>.<task>`.
fn has_foreign_id(headers: &HeaderMap, subject: &str) -> bool {
    let Some(id) = headers.get(async_nats::header::NATS_MESSAGE_ID) else { return false };
    let organization = subject.split('.').nth(3).unwrap_or_default();
    id.as_str().strip_prefix(organization).is_none_or(|rest| !rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_id_begins_with_its_organization() {
        for (id, organization, foreign) in [
            (None, "acme", false),
            (Some("acme.1"), "acme", false),
            (Some("acme."), "acme", false),
            (Some("-.1"), "-", false),
            (Some("acme"), "acme", true),
            (Some("acmes.1"), "acme", true),
            (Some("umbra.1"), "acme", true),
            (Some(""), "acme", true),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(id) = id {
                headers.insert(async_nats::header::NATS_MESSAGE_ID, id);
            }
            let subject = format!("wakes.0.task_mutation.{organization}.t");
            assert_eq!(has_foreign_id(&headers, &subject), foreign, "{id:?} of {organization}");
        }
    }
}
