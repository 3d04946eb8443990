//! Mistakes about deliveries and acknowledgements.

use std::sync::{Arc, OnceLock};

use wakegate::audit::AckPermit;
use wakegate::intake::{
    BrokerError, Delivery, LaneConsumer, LaneFeed, LaneInfo, StreamView, Verdict,
};
use wakegate::wake::UtcMicros;

use super::Mistake;
use crate::simulation::consumer::{SimConsumer, SimFeed};

#[derive(Debug, Clone)]
pub struct MistakenConsumer {
    inner: SimConsumer,
    mistake: Option<Mistake>,
    /// The stream as it was when it was asked about first.
    stream: Arc<OnceLock<StreamView>>,
}

pub struct MistakenFeed {
    inner: SimFeed,
    consumer: MistakenConsumer,
    last_consumer_sequence: Option<u64>,
}

impl MistakenConsumer {
    pub fn new(inner: SimConsumer, mistake: Option<Mistake>) -> Self {
        Self { inner, mistake, stream: Arc::default() }
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }
}

impl LaneConsumer for MistakenConsumer {
    type Feed = MistakenFeed;

    async fn open(&self) -> Result<MistakenFeed, BrokerError> {
        let inner = self.inner.open().await?;
        Ok(MistakenFeed { inner, consumer: self.clone(), last_consumer_sequence: None })
    }

    async fn info(&self) -> Result<LaneInfo, BrokerError> {
        let info = self.inner.info().await?;
        if !self.makes(Mistake::NoBarrier) {
            return Ok(info);
        }
        // As if all that is unacknowledged were here.
        let unacknowledged = self.inner.kept() as u64;
        Ok(LaneInfo { unacknowledged, ack_floor: 0, delivered: u64::MAX, ..info })
    }

    async fn stream(&self) -> Result<StreamView, BrokerError> {
        if !self.makes(Mistake::StreamKnownAlready) {
            return self.inner.stream().await;
        }
        if let Some(known) = self.stream.get() {
            return Ok(known.clone());
        }
        let view = self.inner.stream().await?;
        Ok(self.stream.get_or_init(|| view).clone())
    }

    async fn next_after(&self, sequence: u64) -> Result<Option<u64>, BrokerError> {
        // Who does not ask whether all is here does not ask what is not.
        if self.makes(Mistake::NoBarrier) {
            return Ok(None);
        }
        self.inner.next_after(sequence).await
    }

    async fn progress(&self, delivery: &Delivery) -> Result<(), BrokerError> {
        if self.makes(Mistake::NakInsteadOfHold) {
            return self.inner.give_back(delivery).await;
        }
        self.inner.progress(delivery).await
    }

    async fn give_back(&self, delivery: &Delivery) -> Result<(), BrokerError> {
        self.inner.give_back(delivery).await
    }

    async fn acknowledge(
        &self,
        delivery: &Delivery,
        verdict: Verdict,
        permit: AckPermit<'_>,
    ) -> Result<(), BrokerError> {
        if self.makes(Mistake::AckAll) {
            self.inner.acknowledge_all();
        }
        self.inner.acknowledge(delivery, verdict, permit).await
    }

    async fn tell(&self, subject: &str, record: String) {
        self.inner.tell(subject, record).await;
    }

    async fn flush(&self) -> Result<(), BrokerError> {
        let flushed = self.inner.flush().await;
        if flushed.is_err() && self.makes(Mistake::NoDeadline) {
            std::future::pending::<()>().await;
        }
        flushed
    }

    async fn unpin(&self) -> Result<(), BrokerError> {
        self.inner.unpin().await
    }
}

impl LaneFeed for MistakenFeed {
    async fn next(&mut self) -> Result<Delivery, BrokerError> {
        let mut delivery = self.inner.next().await?;
        if self.consumer.makes(Mistake::GapUnnoticed) {
            let last = self.last_consumer_sequence.unwrap_or(delivery.consumer_sequence - 1);
            delivery.consumer_sequence = last + 1;
            self.last_consumer_sequence = Some(last + 1);
        }
        if self.consumer.makes(Mistake::InstantOfArrival) {
            let now = self.consumer.inner.world.with(|inside| inside.clock.now());
            delivery.message.requested_at = UtcMicros::from_micros(now.micros());
        }
        Ok(delivery)
    }
}

impl SimConsumer {
    /// How many deliveries the lane keeps.
    fn kept(&self) -> usize {
        let of = |clients: &mut crate::simulation::world::Inside| {
            let mine = clients.clients.values_mut().filter(|client| client.me == self.me);
            mine.map(crate::simulation::network::Client::kept).sum()
        };
        self.world.with(of)
    }

    /// Settles everything that is delivered and not acknowledged.
    fn acknowledge_all(&self) {
        let lane = self.me.lane as usize;
        self.world.with(|inside| {
            inside.send(self.me.worker, move |inside| {
                for sequence in inside.servers[lane].pending_sequences() {
                    inside.servers[lane].acknowledge(sequence);
                    inside.prove(sequence, None);
                }
            });
        });
    }
}
