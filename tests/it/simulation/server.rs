//! One lane's durable consumer as nats-server has it: pinned client, explicit acknowledgements.
//!
//! Pure: instants come in, deliveries go out. What it imitates, and from where it is known, is told
//! in docs/decisions/0033-simulation.md.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// One pull stream of one worker.
pub type ClientId = u64;

/// Times of the consumer, in milliseconds, and its limit.
#[derive(Debug, Clone, Copy)]
pub struct ConsumerOptions {
    pub ack_wait: u64,
    pub pin_timeout: u64,
    pub max_ack_pending: usize,
}

/// What the server keeps on disk, and may lose the end of in a crash.
#[derive(Debug, Clone, Default)]
struct Durable {
    /// How many messages of the lane have been delivered for the first time.
    next: usize,
    /// The last delivery, redeliveries included.
    consumer_sequence: u64,
    pending: BTreeMap<u64, Pending>,
    /// Deliveries so far of what has been delivered more than once.
    deliveries: BTreeMap<u64, u64>,
    floor: Floor,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    /// Of the first delivery; the server keeps it.
    consumer_sequence: u64,
    since: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Floor {
    consumer_sequence: u64,
    sequence: u64,
}

#[derive(Debug, Clone)]
struct Pin {
    id: Arc<str>,
    renewed: u64,
}

#[derive(Debug, Clone)]
struct Pull {
    client: ClientId,
    pin: Option<Arc<str>>,
    left: usize,
    expires: u64,
}

/// A delivery on its way.
#[derive(Debug, Clone)]
pub struct Sent {
    pub client: ClientId,
    pub sequence: u64,
    pub consumer_sequence: u64,
    pub deliveries: u64,
    pub pending: u64,
    pub pin: Arc<str>,
}

/// What `CONSUMER.INFO` answers.
#[derive(Debug, Clone)]
pub struct Info {
    pub pending: u64,
    pub unacknowledged: u64,
    pub ack_floor: u64,
    pub delivered: u64,
    pub last_delivery: u64,
    pub waiting: u64,
    pub pin: Option<Arc<str>>,
}

#[derive(Debug)]
pub struct Consumer {
    lane: u32,
    options: ConsumerOptions,
    /// The lane's messages by stream sequence, in order.
    messages: Vec<u64>,
    state: Durable,
    flushed: Durable,
    redeliver: VecDeque<u64>,
    pin: Option<Pin>,
    pins: u64,
    pulls: VecDeque<Pull>,
    wrong_pins: Vec<ClientId>,
    /// When it is to be looked at next, if that is arranged.
    pub armed: Option<u64>,
}

impl Consumer {
    pub fn new(lane: u32, options: ConsumerOptions) -> Self {
        Self {
            lane,
            options,
            messages: Vec::new(),
            state: Durable::default(),
            flushed: Durable::default(),
            redeliver: VecDeque::new(),
            pin: None,
            pins: 0,
            pulls: VecDeque::new(),
            wrong_pins: Vec::new(),
            armed: None,
        }
    }

    /// The stream stored a message of this lane.
    pub fn store(&mut self, sequence: u64) {
        self.messages.push(sequence);
    }

    /// A pull arrives. Only one that carries the pin renews it; one with another's is turned away
    /// (423), one without waits until nobody is pinned.
    pub fn pull(
        &mut self,
        now: u64,
        client: ClientId,
        pin: Option<Arc<str>>,
        left: usize,
        expires: u64,
    ) {
        if let Some(id) = &pin {
            match &mut self.pin {
                Some(current) if current.id == *id => current.renewed = now,
                _ => return self.wrong_pins.push(client),
            }
        }
        self.pulls.push_back(Pull { client, pin, left, expires });
    }

    /// Nobody listens there any more.
    pub fn forget(&mut self, gone: impl Fn(ClientId) -> bool) {
        self.pulls.retain(|pull| !gone(pull.client));
    }

    /// Pulls that were turned away for their pin since the last question.
    pub fn take_wrong_pins(&mut self) -> Vec<ClientId> {
        std::mem::take(&mut self.wrong_pins)
    }

    /// Time has passed: pins and pulls run out, and what was not acknowledged in time is to be
    /// delivered again. `shuffle` chooses in which order.
    pub fn expire(&mut self, now: u64, mut shuffle: impl FnMut(&mut Vec<u64>)) {
        self.pulls.retain(|pull| pull.expires > now);
        let pin_timeout = self.options.pin_timeout;
        self.pin.take_if(|pin| now >= pin.renewed + pin_timeout);
        let ack_wait = self.options.ack_wait;
        let late = |pending: &Pending| now >= pending.since + ack_wait;
        let mut expired: Vec<u64> = self
            .state
            .pending
            .iter()
            .filter(|(sequence, pending)| late(pending) && !self.redeliver.contains(sequence))
            .map(|(sequence, _)| *sequence)
            .collect();
        shuffle(&mut expired);
        self.redeliver.extend(expired);
    }

    /// When [`Consumer::expire`] has something to do next.
    pub fn next_deadline(&self) -> Option<u64> {
        let pulls = self.pulls.iter().map(|pull| pull.expires);
        let pin = self.pin.iter().map(|pin| pin.renewed + self.options.pin_timeout);
        let pending = self.state.pending.iter();
        let pending = pending.filter(|(sequence, _)| !self.redeliver.contains(sequence));
        let pending = pending.map(|(_, pending)| pending.since + self.options.ack_wait);
        pulls.chain(pin).chain(pending).min()
    }

    /// The next message for a pull that waits, what is to be delivered again first. Redeliveries
    /// pass `max_ack_pending`.
    pub fn deliver(&mut self, now: u64) -> Option<Sent> {
        while self.redeliver.front().is_some_and(|of| !self.state.pending.contains_key(of)) {
            self.redeliver.pop_front();
        }
        let again = self.redeliver.front().copied();
        let new = self.messages.get(self.state.next).copied();
        let new = new.filter(|_| self.state.pending.len() < self.options.max_ack_pending);
        let sequence = again.or(new)?;
        let (client, pin) = self.take_pull(now)?;
        if again.is_some() {
            self.redeliver.pop_front();
        } else {
            self.state.next += 1;
        }
        self.state.consumer_sequence += 1;
        let consumer_sequence = self.state.consumer_sequence;
        let pending = Pending { consumer_sequence, since: now };
        self.state.pending.entry(sequence).or_insert(pending).since = now;
        let deliveries = self.state.deliveries.entry(sequence).or_insert(0);
        *deliveries += 1;
        Some(Sent {
            client,
            sequence,
            consumer_sequence,
            deliveries: *deliveries,
            pending: (self.messages.len() - self.state.next) as u64,
            pin,
        })
    }

    fn take_pull(&mut self, now: u64) -> Option<(ClientId, Arc<str>)> {
        self.pulls.retain(|pull| pull.expires > now);
        let current = self.pin.as_ref().map(|pin| Arc::clone(&pin.id));
        let (wrong, waiting): (Vec<Pull>, Vec<Pull>) = std::mem::take(&mut self.pulls)
            .into_iter()
            .partition(|pull| pull.pin.is_some() && pull.pin != current);
        self.pulls = waiting.into();
        self.wrong_pins.extend(wrong.into_iter().map(|pull| pull.client));
        let place = self.pulls.iter().position(|pull| current.is_none() || pull.pin == current)?;
        let pin = current.unwrap_or_else(|| {
            self.pins += 1;
            let id: Arc<str> = Arc::from(format!("pin-{}-{}", self.lane, self.pins));
            self.pin = Some(Pin { id: Arc::clone(&id), renewed: now });
            id
        });
        let pull = &mut self.pulls[place];
        // From here on the pull is the pinned client's.
        pull.pin = Some(Arc::clone(&pin));
        pull.left -= 1;
        let client = pull.client;
        if pull.left == 0 {
            self.pulls.remove(place);
        }
        Some((client, pin))
    }

    /// An acknowledgement arrives, whoever sent it. Returns whether it settled anything: what is
    /// not pending here is ignored.
    pub fn acknowledge(&mut self, sequence: u64) -> bool {
        let Some(pending) = self.state.pending.remove(&sequence) else { return false };
        self.state.deliveries.remove(&sequence);
        let last = self.last_delivered();
        let floor = &mut self.state.floor;
        if self.state.pending.is_empty() {
            *floor = Floor { consumer_sequence: self.state.consumer_sequence, sequence: last };
        } else if pending.consumer_sequence == floor.consumer_sequence + 1 {
            *floor = Floor { consumer_sequence: pending.consumer_sequence, sequence };
            if let Some((next, pending)) = self.state.pending.range(sequence + 1..).next() {
                *floor =
                    Floor { consumer_sequence: pending.consumer_sequence - 1, sequence: next - 1 };
            }
        }
        true
    }

    /// The first message of the lane behind a sequence.
    pub fn next_after(&self, sequence: u64) -> Option<u64> {
        self.messages.iter().copied().find(|message| *message > sequence)
    }

    fn last_delivered(&self) -> u64 {
        self.state.next.checked_sub(1).map_or(0, |last| self.messages[last])
    }

    /// Everything up to here and pending: for the mistake that acknowledges more than it has done.
    pub fn pending_sequences(&self) -> Vec<u64> {
        self.state.pending.keys().copied().collect()
    }

    /// The delivery is still in work.
    pub fn progress(&mut self, now: u64, sequence: u64) {
        if let Some(pending) = self.state.pending.get_mut(&sequence) {
            pending.since = now;
        }
    }

    /// A nak: to be delivered again at once.
    pub fn give_back(&mut self, sequence: u64) {
        let pending = self.state.pending.contains_key(&sequence);
        if pending && !self.redeliver.contains(&sequence) {
            self.redeliver.push_back(sequence);
        }
    }

    pub fn unpin(&mut self) {
        self.pin = None;
    }

    pub fn info(&self) -> Info {
        Info {
            pending: (self.messages.len() - self.state.next) as u64,
            unacknowledged: self.state.pending.len() as u64,
            ack_floor: self.state.floor.sequence,
            delivered: self.last_delivered(),
            last_delivery: self.state.consumer_sequence,
            waiting: self.pulls.len() as u64,
            pin: self.pin.as_ref().map(|pin| Arc::clone(&pin.id)),
        }
    }

    /// The state reaches the disk.
    pub fn flush(&mut self) {
        self.flushed = self.state.clone();
    }

    /// The server restarts; after a crash with what had reached the disk. Nobody is pinned then.
    pub fn restart(&mut self, crashed: bool) {
        if crashed {
            self.state = self.flushed.clone();
        }
        self.redeliver.clear();
        self.pulls.clear();
        self.wrong_pins.clear();
        self.pin = None;
    }

    /// Nothing is to be delivered and nothing to be acknowledged.
    pub fn is_settled(&self) -> bool {
        self.state.next == self.messages.len() && self.state.pending.is_empty()
    }
}
