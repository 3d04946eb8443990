//! Intake: what a lane needs of JetStream, as a trait, so that a simulated stream can stand in.

pub mod jetstream;

use std::future::Future;
use std::sync::Arc;

use crate::audit::AckPermit;
use crate::wake::WakeId;
use crate::wake::decode::Message;

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
    /// Nothing of the lane beyond this stream sequence has been delivered, as far as the server
    /// knows: in a crash it may forget what it did last.
    pub delivered: u64,
    /// Who holds the pin, if anybody.
    pub pin_id: Option<Arc<str>>,
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
