//! The simulated world: its time, its chance, and what is on its way. All of it is behind one lock,
//! and everything in it happens in an order that the seed alone decides.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::sync::Notify;
use tokio::time::Instant;
use wakegate::admission::GateName;
use wakegate::clock::Clock;
use wakegate::store::memory::MemoryStore;
use wakegate::wake::UtcMicros;

use super::network::Client;
use super::oracle::Oracle;
use super::plan::{Plan, Weather};
use super::server::{ClientId, Consumer, ConsumerOptions};
use super::store::Attempt;
use super::worker::{Me, Order, Point, Worker};
use crate::harness::world::T0;

/// The consumer's times (`streams/lane-consumer.json`), in milliseconds.
pub const ACK_WAIT_MS: u64 = 12_000;
/// See [`ACK_WAIT_MS`].
pub const PIN_TIMEOUT_MS: u64 = 5_000;
/// Longest that whoever drives the workers waits before they are looked at.
const LOOK_MS: u64 = 1_000;
/// How long a run goes on after everything is settled, while things may fail.
const REST_MS: u64 = 15_000;
/// Lines of a trace that are kept: the last ones.
const TRACE_LINES_MAX: usize = 3_000;

/// Something that happens at its time.
pub type Deed = Box<dyn FnOnce(&mut Inside) + Send>;

/// A handle on the world; clones share it.
#[derive(Debug, Clone)]
pub struct World(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    inside: Mutex<Inside>,
    /// Something nearer than the next deed has been arranged.
    sooner: Notify,
    start: Instant,
}

pub struct Inside {
    pub now: u64,
    pub rng: StdRng,
    pub plan: Arc<Plan>,
    /// Nothing fails any more.
    pub calm: bool,
    /// Whatever else is so.
    pub forced: Option<Weather>,
    settled_since: Option<u64>,
    /// The run is over, and nobody is started again.
    pub ending: bool,
    pub servers: Vec<Consumer>,
    pub workers: Vec<Worker>,
    pub clients: BTreeMap<ClientId, Client>,
    pub next_client: ClientId,
    pub attempts: BTreeMap<(usize, u32), Attempt>,
    pub orders: Vec<Order>,
    pub oracle: Oracle,
    pub memory: MemoryStore,
    pub clock: Clock,
    pub crashed_at: BTreeSet<Point>,
    /// How often settling a wake ended the process.
    pub deaths: BTreeMap<usize, u32>,
    agenda: BTreeMap<(u64, u64), Deed>,
    deeds: u64,
    fingerprint: u64,
    trace: Option<VecDeque<String>>,
}

impl std::fmt::Debug for Inside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inside").field("now", &self.now).finish_non_exhaustive()
    }
}

impl World {
    /// A world in which nothing has happened yet.
    pub fn new(seed: u64, plan: Arc<Plan>, traced: bool, max_ack_pending: usize) -> Self {
        let options =
            ConsumerOptions { ack_wait: ACK_WAIT_MS, pin_timeout: PIN_TIMEOUT_MS, max_ack_pending };
        let points = plan.crash_points.iter().zip(&plan.stall_points);
        let workers = points.map(|(crash_at, stall_at)| Worker {
            crash_at: *crash_at,
            stall_at: *stall_at,
            ..Worker::default()
        });
        let inside = Inside {
            now: 0,
            // Not the sequence that made the plan.
            rng: StdRng::seed_from_u64(seed ^ 0x5eed),
            calm: false,
            forced: None,
            settled_since: None,
            ending: false,
            servers: (0..plan.lanes).map(|lane| Consumer::new(lane, options)).collect(),
            workers: workers.collect(),
            clients: BTreeMap::new(),
            next_client: 0,
            attempts: BTreeMap::new(),
            orders: Vec::new(),
            oracle: Oracle::new(&plan),
            memory: MemoryStore::new(),
            clock: Clock::manual(UtcMicros::from_micros(T0)),
            crashed_at: BTreeSet::new(),
            deaths: BTreeMap::new(),
            agenda: BTreeMap::new(),
            deeds: 0,
            fingerprint: seed,
            trace: traced.then(VecDeque::new),
            plan,
        };
        let shared =
            Shared { inside: Mutex::new(inside), sooner: Notify::new(), start: Instant::now() };
        Self(Arc::new(shared))
    }

    /// Looks at the world, or changes it.
    pub fn with<T>(&self, act: impl FnOnce(&mut Inside) -> T) -> T {
        let mut inside = self.lock();
        let head = inside.agenda.first_key_value().map(|(key, _)| *key);
        let result = act(&mut inside);
        if inside.agenda.first_key_value().map(|(key, _)| *key) != head || !inside.orders.is_empty()
        {
            self.0.sooner.notify_one();
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        let mut inside = self.0.inside.lock().unwrap();
        inside.now = u64::try_from(self.0.start.elapsed().as_millis()).unwrap();
        let now = i64::try_from(inside.now).unwrap();
        inside.clock.set(UtcMicros::from_micros(T0 + now * 1_000));
        inside
    }

    /// Does what is due, and waits for what is due next or until something nearer turns up.
    pub async fn go_on(&self) {
        let next = {
            let mut inside = self.lock();
            let now = inside.now;
            while let Some(entry) = inside.agenda.first_entry() {
                if entry.key().0 > now {
                    break;
                }
                let deed = entry.remove();
                deed(&mut inside);
            }
            if !inside.orders.is_empty() {
                return;
            }
            // A lane that ends does not say so here: it is looked for now and then.
            let look = now + LOOK_MS;
            inside.agenda.first_key_value().map_or(look, |((at, _), _)| look.min(*at))
        };
        let sooner = self.0.sooner.notified();
        let due = tokio::time::sleep_until(self.0.start + Duration::from_millis(next));
        tokio::select! { biased; () = sooner => {} () = due => {} }
    }

    /// An await point. It is never passed by a worker that is dead, or that is to die here.
    pub async fn pass(&self, me: Me, point: Point) {
        let (passes, frozen) =
            self.with(|inside| (inside.passes(me, point), inside.workers[me.worker].stalled));
        if !passes {
            std::future::pending::<()>().await;
        }
        if frozen {
            tokio::task::yield_now().await;
        }
    }

    /// Lets simulated time pass; what is dead by then does not go on.
    pub async fn lag(&self, me: Me, ms: u64) {
        if ms > 0 {
            tokio::time::sleep_until(Instant::now() + Duration::from_millis(ms)).await;
            if !self.with(|inside| inside.is_alive(me)) {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Inside {
    /// Arranges that something happens so many milliseconds from now.
    pub fn after(&mut self, ms: u64, deed: impl FnOnce(&mut Self) + Send + 'static) {
        self.at(self.now + ms, deed);
    }

    /// As [`Inside::after`], and now if that is at once.
    pub fn soon(&mut self, ms: u64, deed: impl FnOnce(&mut Self) + Send + 'static) {
        if ms == 0 { deed(self) } else { self.after(ms, deed) }
    }

    /// Arranges that something happens at an instant.
    pub fn at(&mut self, ms: u64, deed: impl FnOnce(&mut Self) + Send + 'static) {
        self.deeds += 1;
        self.agenda.insert((ms, self.deeds), Box::new(deed));
    }

    pub fn chance(&mut self, permille: u32) -> bool {
        permille > 0 && self.rng.random_range(0..1_000) < permille
    }

    /// What is so now; nothing is once all is calm, unless somebody says so.
    pub fn is_weather(&self, of: Weather) -> bool {
        if self.forced == Some(of) {
            return true;
        }
        !self.calm
            && self
                .plan
                .spells
                .iter()
                .any(|spell| spell.of == of && (spell.from_ms..spell.until_ms).contains(&self.now))
    }

    pub fn read_fails(&self, gate: GateName) -> bool {
        self.is_weather(Weather::ReadFails(gate))
    }

    pub fn noise(&mut self) -> bool {
        let permille = self.plan.noise_permille;
        !self.calm && self.chance(permille)
    }

    /// Adds to what tells one run from another.
    pub fn mark(&mut self, values: &[u64]) {
        for value in values.iter().chain([&self.now]) {
            self.fingerprint = (self.fingerprint ^ value).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Adds a line to the trace, if one is kept.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(trace) = &mut self.trace {
            let mut text = format!("{:4}.{:03} ", now / 1_000, now % 1_000);
            let _ = write!(text, "{}", line());
            trace.push_back(text);
            if trace.len() > TRACE_LINES_MAX {
                trace.pop_front();
            }
        }
    }

    pub fn take_trace(&mut self) -> Vec<String> {
        self.trace.take().unwrap_or_default().into()
    }

    /// What became of each event.
    pub fn outcomes(&self) -> Vec<String> {
        let outcome = |decided: &super::oracle::Decided| match &decided.answer {
            None => "rejected".to_owned(),
            Some(answer) => match (&answer.reason, &answer.degraded) {
                (Some(reason), _) => format!("{}:{reason}", answer.outcome),
                (None, Some(degraded)) => format!("{}/{degraded}", answer.outcome),
                (None, None) => answer.outcome.clone(),
            },
        };
        self.oracle.decided.values().map(outcome).collect()
    }

    /// Everything is published and settled, and either nothing fails any more or it has been so for
    /// a while, in which what is late arrives.
    pub fn has_come_to_rest(&mut self) -> bool {
        let settled = self.oracle.published == self.plan.events.len()
            && self.servers.iter().all(Consumer::is_settled);
        let since = if settled { self.settled_since.unwrap_or(self.now) } else { self.now };
        self.settled_since = settled.then_some(since);
        settled && (self.calm || self.now >= since + REST_MS)
    }
}
