//! Intake: what a lane needs of JetStream, as a trait, so that a simulated stream can stand in.

pub mod jetstream;
mod stream;

use std::future::Future;
use std::sync::Arc;

use crate::audit::AckPermit;
use crate::wake::decode::Message;
use crate::wake::{UtcMicros, WakeId};

/// One delivery of one message.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// What decoding reads. Its request instant is the stream's timestamp until the lane corrects it.
    pub message: Message,
    /// Position among the consumer's deliveries, redeliveries included: a gap means that one was
    /// lost on its way here.
    pub consumer_sequence: u64,
    /// How often the message has been delivered, this time included.
    pub deliveries: u64,
    /// Messages of the lane not yet delivered to anybody.
    pub pending: u64,
    /// The pin under which the server delivered it.
    pub pin_id: Option<Arc<str>>,
    /// Where acknowledgements go.
    pub reply: Arc<str>,
}

impl Delivery {
    /// Known without reading the body, so that a poison body can be named before it is touched.
    #[must_use]
    pub fn wake_id(&self) -> WakeId {
        WakeId::derive(&self.message.stream, self.message.sequence, self.message.stored_at_nanos)
    }
}

/// The server's view of a lane.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LaneInfo {
    /// Messages not yet delivered to anybody.
    pub pending: u64,
    /// Messages delivered and not acknowledged.
    pub unacknowledged: u64,
    /// Everything of the lane up to this stream sequence is acknowledged.
    pub ack_floor: u64,
    /// Everything of the lane up to this stream sequence has been delivered, or was gone by then.
    pub delivered: u64,
    /// Position of the last delivery among the consumer's, redeliveries included.
    pub last_delivery: u64,
    /// Pulls that wait at the server: who works a lane, or stands by for it, always has one there.
    pub waiting: u64,
    /// Who holds the pin, if anybody.
    pub pin_id: Option<Arc<str>>,
}

/// The server's view of the stream that the lanes share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamView {
    /// When it was created.
    pub created: UtcMicros,
    /// Sequence of the first message that it keeps; one more than the last where it is empty.
    pub first_sequence: u64,
    /// The last sequence that it issued.
    pub last_sequence: u64,
    /// Messages removed between these two.
    pub removed_amid: u64,
}

/// What an acknowledgement says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Done.
    Done,
    /// At fault, and audited: never deliver it again.
    Terminate,
}

/// Why the broker did not do as asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BrokerError {
    /// Retry: the connection, the server or JetStream is away.
    #[error("nats is unavailable: {error}")]
    Unavailable {
        /// The cause in one line.
        error: String,
    },
    /// Halt: the stream or the consumer is gone.
    #[error("{what} is gone; run `wakegate streams apply`")]
    Gone {
        /// Which.
        what: String,
    },
    /// Start again: what is known of the stream is of another one.
    #[error("stream {stream} was created anew while the worker ran; start the worker again")]
    Recreated {
        /// Which.
        stream: String,
    },
}

/// A stream of deliveries. Polling it is what keeps the lane pinned to this worker.
pub trait LaneFeed: Send {
    /// The next delivery. Safe to drop and call again.
    fn next(&mut self) -> impl Future<Output = Result<Delivery, BrokerError>> + Send;
}

/// One lane's consumer.
pub trait LaneConsumer: Clone + Send + Sync + 'static {
    /// See [`LaneFeed`].
    type Feed: LaneFeed;

    /// Starts to pull.
    fn open(&self) -> impl Future<Output = Result<Self::Feed, BrokerError>> + Send;

    /// Asks the server.
    fn info(&self) -> impl Future<Output = Result<LaneInfo, BrokerError>> + Send;

    /// Asks about the stream.
    fn stream(&self) -> impl Future<Output = Result<StreamView, BrokerError>> + Send;

    /// The first message of this lane behind `sequence` that the stream keeps.
    fn next_after(
        &self,
        sequence: u64,
    ) -> impl Future<Output = Result<Option<u64>, BrokerError>> + Send;

    /// Tells the server that the delivery is still in work, so that it stays ours.
    fn progress(&self, delivery: &Delivery)
    -> impl Future<Output = Result<(), BrokerError>> + Send;

    /// Gives a delivery back undecided, for whoever has the lane next. Only for a worker that ends:
    /// one that waits keeps what it has.
    fn give_back(
        &self,
        delivery: &Delivery,
    ) -> impl Future<Output = Result<(), BrokerError>> + Send;

    /// Acknowledges a delivery. A lost acknowledgement costs a redelivery, which gate 0 answers.
    fn acknowledge(
        &self,
        delivery: &Delivery,
        verdict: Verdict,
        permit: AckPermit<'_>,
    ) -> impl Future<Output = Result<(), BrokerError>> + Send;

    /// Tells whoever asked what became of an event; best effort.
    fn tell(&self, subject: &str, record: String) -> impl Future<Output = ()> + Send;

    /// Sends what is buffered.
    fn flush(&self) -> impl Future<Output = Result<(), BrokerError>> + Send;

    /// Lets another worker have the lane at once.
    fn unpin(&self) -> impl Future<Output = Result<(), BrokerError>> + Send;
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The first delivery of a message: at `sequence` of the stream, the consumer's `nth`.
    pub(crate) fn delivery(sequence: u64, nth: u64) -> Delivery {
        Delivery {
            message: Message {
                stream: Arc::from("WAKES"),
                sequence,
                stored_at_nanos: 0,
                requested_at: UtcMicros::from_micros(0),
                subject: Arc::from("wakes.0.p.o.t"),
                body: bytes::Bytes::new(),
                traceparent: None,
                tracestate: None,
                outcome_to: None,
            },
            consumer_sequence: nth,
            deliveries: 1,
            pending: 0,
            pin_id: None,
            reply: Arc::from("reply"),
        }
    }
}
