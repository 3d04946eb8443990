//! One lane's consumer as a worker sees it.

use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;
use wakegate::audit::AckPermit;
use wakegate::intake::{
    BrokerError, Delivery, LaneConsumer, LaneFeed, LaneInfo, StreamView, Verdict,
};

use super::events::EventFault;
use super::network::Client;
use super::oracle::Invariant;
use super::run::lane_key;
use super::server::ClientId;
use super::worker::{Me, Point};
use super::world::{Inside, World};

/// How long a request to the broker waits for its answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// How often settling one wake ends the process: twice among others, and as often alone as makes it
/// poison.
const DEATHS_MAX: u32 = 6;

#[derive(Debug, Clone)]
pub struct SimConsumer {
    pub world: World,
    pub me: Me,
}

/// A pull stream; it is gone from the broker once it is dropped.
pub struct SimFeed {
    world: World,
    client: ClientId,
    me: Me,
}

impl SimConsumer {
    fn lane(&self) -> usize {
        self.me.lane as usize
    }

    /// Asks the broker something and waits for the answer.
    async fn request<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Inside) -> T + Send + 'static,
    ) -> Result<T, BrokerError> {
        let (answer, answered) = oneshot::channel();
        let worker = self.me.worker;
        self.world.with(|inside| {
            inside.send(worker, move |inside| {
                let reply = ask(inside);
                inside.answer(worker, move |_| drop(answer.send(reply)));
            });
        });
        let answered = async {
            match answered.await {
                Ok(reply) => reply,
                // Lost on its way: nobody will ever say so.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::time::timeout(ANSWER_WITHIN, answered)
            .await
            .map_err(|_| BrokerError::Unavailable { error: "no answer in time".to_owned() })
    }

    /// Something is written to the connection; nobody answers.
    async fn publish(
        &self,
        name: &'static str,
        deed: impl FnOnce(&mut Inside) + Send + 'static,
    ) -> Result<(), BrokerError> {
        self.world.pass(self.me, Point::Before(name)).await;
        self.world.with(|inside| inside.send(self.me.worker, deed));
        self.world.pass(self.me, Point::After(name)).await;
        Ok(())
    }
}

impl LaneConsumer for SimConsumer {
    type Feed = SimFeed;

    async fn open(&self) -> Result<SimFeed, BrokerError> {
        self.world.pass(self.me, Point::Before("open")).await;
        self.request(|_| ()).await?;
        let client = self.world.with(|inside| {
            inside.next_client += 1;
            let client = inside.next_client;
            inside.clients.insert(client, Client::new(self.me));
            inside.note(|| format!("{} opens a pull stream: client {client}", self.me));
            inside.pull(client);
            client
        });
        let feed = SimFeed { world: self.world.clone(), client, me: self.me };
        self.world.pass(self.me, Point::After("open")).await;
        Ok(feed)
    }

    async fn info(&self) -> Result<LaneInfo, BrokerError> {
        self.world.pass(self.me, Point::Before("info")).await;
        let lane = self.lane();
        let info = self
            .request(move |inside| {
                inside.look_after(lane);
                inside.servers[lane].info()
            })
            .await;
        self.world.pass(self.me, Point::After("info")).await;
        let info = info?;
        self.world.with(|inside| inside.note(|| format!("{} is told {info:?}", self.me)));
        Ok(LaneInfo {
            pending: info.pending,
            unacknowledged: info.unacknowledged,
            ack_floor: info.ack_floor,
            delivered: info.delivered,
            last_delivery: info.last_delivery,
            waiting: info.waiting,
            pin_id: info.pin,
        })
    }

    async fn stream(&self) -> Result<StreamView, BrokerError> {
        self.world.pass(self.me, Point::Before("stream")).await;
        let view = self.request(|inside| StreamView {
            created: lane_key(0).stream_created_at,
            first_sequence: 1,
            last_sequence: inside.oracle.published as u64,
            removed_amid: 0,
        });
        let view = view.await;
        self.world.pass(self.me, Point::After("stream")).await;
        view
    }

    async fn next_after(&self, sequence: u64) -> Result<Option<u64>, BrokerError> {
        self.world.pass(self.me, Point::Before("next_after")).await;
        let lane = self.lane();
        let next = self.request(move |inside| inside.servers[lane].next_after(sequence)).await;
        self.world.pass(self.me, Point::After("next_after")).await;
        next
    }

    async fn progress(&self, delivery: &Delivery) -> Result<(), BrokerError> {
        let (lane, sequence) = (self.lane(), delivery.message.sequence);
        self.publish("progress", move |inside| {
            let now = inside.now;
            inside.servers[lane].progress(now, sequence);
        })
        .await
    }

    async fn give_back(&self, delivery: &Delivery) -> Result<(), BrokerError> {
        let (lane, sequence, me) = (self.lane(), delivery.message.sequence, self.me);
        self.world.with(|inside| inside.gives_back(me, sequence));
        self.publish("give_back", move |inside| {
            inside.servers[lane].give_back(sequence);
            inside.look_after(lane);
        })
        .await
    }

    async fn acknowledge(
        &self,
        delivery: &Delivery,
        verdict: Verdict,
        permit: AckPermit<'_>,
    ) -> Result<(), BrokerError> {
        assert_eq!(permit.wake_id(), delivery.wake_id(), "a permit is for one wake");
        let (lane, sequence, me) = (self.lane(), delivery.message.sequence, self.me);
        self.world.with(|inside| {
            inside.note(|| format!("{me} acknowledges {sequence}: {verdict:?}"));
            inside.prove(sequence, Some(verdict));
            inside.settles(me, sequence);
        });
        self.publish("acknowledge", move |inside| {
            if inside.servers[lane].acknowledge(sequence) {
                inside.note(|| format!("lane {lane}: {sequence} is acknowledged"));
                inside.prove(sequence, None);
                inside.look_after(lane);
            }
        })
        .await
    }

    async fn tell(&self, subject: &str, record: String) {
        let index: usize = subject.rsplit('.').next().unwrap().parse().unwrap();
        let me = self.me;
        let told = self.publish("tell", move |inside| {
            inside.note(|| format!("{me} tells what became of event {index}: {record}"));
            inside.told(index, &record);
        });
        let _ = told.await;
    }

    async fn flush(&self) -> Result<(), BrokerError> {
        self.world.pass(self.me, Point::Before("flush")).await;
        let flushed = self.request(|_| ()).await;
        self.world.pass(self.me, Point::After("flush")).await;
        flushed
    }

    async fn unpin(&self) -> Result<(), BrokerError> {
        self.world.pass(self.me, Point::Before("unpin")).await;
        let (lane, me) = (self.lane(), self.me);
        let unpinned = self
            .request(move |inside| {
                inside.note(|| format!("{me} unpins lane {lane}"));
                inside.servers[lane].unpin();
                inside.look_after(lane);
            })
            .await;
        self.world.pass(self.me, Point::After("unpin")).await;
        unpinned
    }
}

impl LaneFeed for SimFeed {
    async fn next(&mut self) -> Result<Delivery, BrokerError> {
        std::future::poll_fn(|context| {
            self.world.with(|inside| {
                if !inside.is_alive(self.me) {
                    return Poll::Pending;
                }
                let limit = inside.kept_max();
                let client = inside.clients.get_mut(&self.client).unwrap();
                let Some(received) = client.inbox.pop_front() else {
                    client.waker = Some(context.waker().clone());
                    return Poll::Pending;
                };
                if let Ok(delivery) = &received {
                    let kept = client.hand_out(delivery);
                    if kept > limit {
                        let me = self.me;
                        inside
                            .breach(Invariant::Memory, || format!("{me} keeps {kept} deliveries"));
                    }
                }
                Poll::Ready(received)
            })
        })
        .await
    }
}

impl Drop for SimFeed {
    fn drop(&mut self) {
        let (client, lane) = (self.client, self.me.lane as usize);
        self.world.with(|inside| {
            inside.clients.remove(&client);
            inside.send(self.me.worker, move |inside| {
                inside.servers[lane].forget(|gone| gone == client);
            });
        });
    }
}

impl Inside {
    /// Most deliveries that a lane may keep.
    fn kept_max(&self) -> usize {
        4 * self.plan.batch_wakes_max
    }

    /// A wake that ends the process when it is settled does so as often as makes it poison.
    fn settles(&mut self, me: Me, sequence: u64) {
        let index = usize::try_from(sequence).unwrap() - 1;
        if self.plan.events[index].fault != Some(EventFault::DeadlyToSettle) {
            return;
        }
        let deaths = self.deaths.entry(index).or_insert(0);
        *deaths += 1;
        if *deaths <= DEATHS_MAX {
            self.crash(me.worker);
        }
    }

    /// Only a worker that ends gives anything back.
    fn gives_back(&mut self, me: Me, sequence: u64) {
        self.note(|| format!("{me} gives {sequence} back"));
        let shutdown = self.workers[me.worker].shutdown.as_ref();
        if !shutdown.is_some_and(wakegate::shutdown::Shutdown::is_requested) {
            self.breach(Invariant::NoNak, || format!("{me} gives {sequence} back"));
        }
    }
}
