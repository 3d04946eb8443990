//! What is between a worker and the broker: one connection, in order, that breaks and is made
//! again; and the client library, which pulls by itself.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::task::Waker;

use rand::Rng as _;
use wakegate::intake::{BrokerError, Delivery};
use wakegate::wake::UtcMicros;
use wakegate::wake::decode::Message;

use super::plan::Weather;
use super::server::{ClientId, Sent};
use super::worker::Me;
use super::world::Inside;

/// How long a pull waits at the server, as `PULL_EXPIRES` has it, in milliseconds.
const PULL_EXPIRES_MS: u64 = 1_000;

/// A worker's connection.
#[derive(Debug, Default)]
pub struct Link {
    /// Grows with each break: what was on its way is lost.
    epoch: u64,
    /// When it works again.
    up_at: u64,
    /// When what was sent last arrives, in either direction.
    last_out: u64,
    last_in: u64,
}

impl Link {
    pub fn cut(&mut self) {
        self.epoch += 1;
    }
}

/// One pull stream.
#[derive(Debug)]
pub struct Client {
    pub me: Me,
    pin: Option<Arc<str>>,
    pub inbox: VecDeque<Result<Delivery, BrokerError>>,
    pub waker: Option<Waker>,
    /// Messages that the outstanding pull may still bring.
    wanted: usize,
    pulls: u64,
    /// Deliveries handed to the lane, as long as it keeps them.
    handed: Vec<Weak<str>>,
}

impl Client {
    pub fn new(me: Me) -> Self {
        Self {
            me,
            pin: None,
            inbox: VecDeque::new(),
            waker: None,
            wanted: 0,
            pulls: 0,
            handed: Vec::new(),
        }
    }

    /// Notes a delivery that the lane takes, and says how many it keeps.
    pub fn hand_out(&mut self, delivery: &Delivery) -> usize {
        self.handed.retain(|reply| reply.strong_count() > 0);
        self.handed.push(Arc::downgrade(&delivery.reply));
        self.handed.len()
    }

    pub fn kept(&mut self) -> usize {
        self.handed.retain(|reply| reply.strong_count() > 0);
        self.handed.len()
    }

    fn receive(&mut self, received: Result<Delivery, BrokerError>) {
        self.inbox.push_back(received);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Inside {
    fn net_lag(&mut self) -> u64 {
        if self.is_weather(Weather::NetworkSlow) {
            return self.rng.random_range(20..3_000);
        }
        let uneven = self.is_weather(Weather::NetworkUneven);
        match self.rng.random_range(0..20) {
            0..8 if uneven => self.rng.random_range(1..300),
            8 | 9 if uneven => self.rng.random_range(300..6_000),
            0..12 => 0,
            12..19 => self.rng.random_range(1..4),
            _ => self.rng.random_range(4..40),
        }
    }

    pub fn is_connected(&self, worker: usize) -> bool {
        self.now >= self.workers[worker].link.up_at
    }

    /// A worker sends something: it arrives in order, after the connection is there again if it is
    /// not, or never if the connection breaks meanwhile.
    pub fn send(&mut self, worker: usize, deed: impl FnOnce(&mut Self) + Send + 'static) {
        let lag = self.net_lag();
        let now = self.now;
        let link = &mut self.workers[worker].link;
        let arrives = (now.max(link.up_at) + lag).max(link.last_out);
        link.last_out = arrives;
        let epoch = link.epoch;
        self.at(arrives, move |inside| {
            if inside.workers[worker].link.epoch == epoch {
                deed(inside);
            }
        });
    }

    /// The server answers a request. Answers and deliveries may overtake each other.
    pub fn answer(&mut self, worker: usize, deed: impl FnOnce(&mut Self) + Send + 'static) {
        let lag = self.net_lag();
        let epoch = self.workers[worker].link.epoch;
        self.after(lag, move |inside| {
            if inside.workers[worker].link.epoch == epoch {
                deed(inside);
            }
        });
    }

    /// Connections break, and what was on its way is lost.
    pub fn break_link(&mut self, worker: usize, away_ms: u64) {
        let up_at = self.now + away_ms;
        self.note(|| format!("w{worker} is cut off for {away_ms} ms"));
        let link = &mut self.workers[worker].link;
        link.cut();
        link.up_at = link.up_at.max(up_at);
        // The server mostly notices at once.
        if self.rng.random_ratio(2, 3) {
            self.hang_up(worker);
        }
        if self.rng.random_bool(0.5) {
            let error = || BrokerError::Unavailable { error: "missed heartbeats".to_owned() };
            for client in self.clients.values_mut().filter(|client| client.me.worker == worker) {
                client.receive(Err(error()));
            }
        }
        self.after(away_ms, move |inside| inside.pull_all(worker));
    }

    /// The server restarts, and everybody's connection breaks.
    pub fn restart_broker(&mut self, crashed: bool, away_ms: u64) {
        self.note(|| format!("the broker restarts, {}", if crashed { "crashed" } else { "asked" }));
        for lane in 0..self.servers.len() {
            self.servers[lane].restart(crashed);
        }
        for worker in 0..self.workers.len() {
            let again = self.rng.random_range(0..500);
            self.break_link(worker, away_ms + again);
        }
        self.after(away_ms, |inside| {
            for lane in 0..inside.servers.len() {
                inside.look_after(lane);
            }
        });
    }

    /// The server learns that nobody listens there any more.
    pub fn hang_up(&mut self, worker: usize) {
        let gone: Vec<ClientId> = self.clients_of(worker);
        for server in &mut self.servers {
            server.forget(|client| gone.contains(&client));
        }
    }

    fn clients_of(&self, worker: usize) -> Vec<ClientId> {
        let of = self.clients.iter().filter(|(_, client)| client.me.worker == worker);
        of.map(|(id, _)| *id).collect()
    }

    pub fn pull_all(&mut self, worker: usize) {
        for client in self.clients_of(worker) {
            self.pull(client);
        }
    }

    /// The client library asks for more, and again when the pull has run out. It does so by itself,
    /// whether or not anybody polls its stream.
    pub fn pull(&mut self, id: ClientId) {
        let batch = self.plan.batch_wakes_max;
        let Some(client) = self.clients.get_mut(&id) else { return };
        let me = client.me;
        client.pulls += 1;
        client.wanted = batch;
        let (pulls, pin) = (client.pulls, client.pin.clone());
        if !self.is_alive(me) || self.workers[me.worker].stalled || !self.is_connected(me.worker) {
            return;
        }
        let lane = me.lane as usize;
        self.send(me.worker, move |inside| {
            if inside.clients.contains_key(&id) {
                let expires = inside.now + PULL_EXPIRES_MS;
                inside.servers[lane].pull(inside.now, id, pin, batch, expires);
                inside.look_after(lane);
            }
        });
        self.after(PULL_EXPIRES_MS, move |inside| {
            if inside.clients.get(&id).is_some_and(|client| client.pulls == pulls) {
                inside.pull(id);
            }
        });
    }

    /// The server does what is due, delivers what it can, and is looked at again when more is due.
    pub fn look_after(&mut self, lane: usize) {
        let now = self.now;
        let rng = &mut self.rng;
        self.servers[lane].expire(now, |expired| {
            // Measured after a hand-over: in no order at all.
            for place in (1..expired.len()).rev() {
                expired.swap(place, rng.random_range(0..=place));
            }
        });
        while let Some(sent) = self.servers[lane].deliver(now) {
            self.deliver(lane, sent);
        }
        for client in self.servers[lane].take_wrong_pins() {
            self.turn_away(client);
        }
        if self.rng.random_ratio(1, 4) {
            self.servers[lane].flush();
        }
        if let Some(deadline) = self.servers[lane].next_deadline()
            && self.servers[lane].armed.is_none_or(|armed| armed > deadline || armed <= now)
        {
            self.servers[lane].armed = Some(deadline);
            self.at(deadline.max(now + 1), move |inside| {
                if inside.servers[lane].armed == Some(deadline) {
                    inside.servers[lane].armed = None;
                    inside.look_after(lane);
                }
            });
        }
    }

    /// 423: the pin is another's. The client forgets its own and pulls anew.
    fn turn_away(&mut self, id: ClientId) {
        let Some(worker) = self.clients.get(&id).map(|client| client.me.worker) else { return };
        self.in_order(worker, move |inside| {
            if let Some(client) = inside.clients.get_mut(&id) {
                client.pin = None;
                inside.pull(id);
            }
        });
    }

    fn deliver(&mut self, lane: usize, sent: Sent) {
        let id = sent.client;
        self.mark(&[sent.sequence, sent.consumer_sequence, id]);
        self.note(|| {
            format!(
                "lane {lane} delivers {} as {} the {}. time to client {id} under {}",
                sent.sequence, sent.consumer_sequence, sent.deliveries, sent.pin
            )
        });
        let Some(worker) = self.clients.get(&id).map(|client| client.me.worker) else { return };
        let permille = match () {
            () if self.is_weather(Weather::NetworkLossy) => 200,
            () if self.is_weather(Weather::NetworkLeaky) => 80,
            () => 3,
        };
        let lost = !self.calm && self.chance(permille);
        let delivery = self.delivery(lane, &sent);
        self.in_order(worker, move |inside| {
            let Some(client) = inside.clients.get_mut(&id) else { return };
            client.wanted = client.wanted.saturating_sub(1);
            let more = client.wanted == 0;
            if !lost {
                client.pin = Some(sent.pin);
                client.receive(Ok(delivery));
            }
            if more {
                inside.pull(id);
            }
        });
    }

    /// The server sends something on a worker's connection.
    fn in_order(&mut self, worker: usize, deed: impl FnOnce(&mut Self) + Send + 'static) {
        let lag = self.net_lag();
        let now = self.now;
        let link = &mut self.workers[worker].link;
        if now < link.up_at {
            return;
        }
        let arrives = (now + lag).max(link.last_in);
        link.last_in = arrives;
        let epoch = link.epoch;
        self.at(arrives, move |inside| {
            if inside.workers[worker].link.epoch == epoch {
                deed(inside);
            }
        });
    }

    fn delivery(&self, lane: usize, sent: &Sent) -> Delivery {
        let index = usize::try_from(sent.sequence).unwrap() - 1;
        let event = &self.plan.events[index];
        let stored_at_nanos = i128::from(event.event.stored_at) * 1_000;
        Delivery {
            message: Message {
                stream: Arc::clone(&self.oracle.stream),
                sequence: sent.sequence,
                stored_at_nanos,
                requested_at: UtcMicros::from_nanos(stored_at_nanos),
                subject: Arc::from(event.subject.as_str()),
                body: event.body.clone(),
                traceparent: None,
                tracestate: None,
                outcome_to: event.asked.then(|| Arc::from(format!("_INBOX.sim.{index}"))),
            },
            consumer_sequence: sent.consumer_sequence,
            deliveries: sent.deliveries,
            pending: sent.pending,
            pin_id: Some(Arc::clone(&sent.pin)),
            reply: Arc::from(format!("$JS.ACK.{lane}.{}", sent.consumer_sequence)),
        }
    }
}
