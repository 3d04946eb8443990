//! Workers as the world sees them: they begin, pass await points, are frozen, and end.

use std::collections::BTreeMap;
use std::task::Waker;

use rand::Rng as _;
use wakegate::shutdown::Shutdown;

use super::network::Link;
use super::points::PointAt;
use super::world::Inside;

/// One lane of one life of one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Me {
    pub worker: usize,
    pub life: u64,
    pub lane: u32,
}

/// An await point: a call on one of the servers, before it has its effect or after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    Before(&'static str),
    After(&'static str),
}

/// What whoever drives the workers has to do.
#[derive(Debug)]
pub enum Order {
    Start(usize),
    Kill(usize),
}

/// A worker as the world sees it.
#[derive(Debug, Default)]
pub struct Worker {
    pub life: u64,
    pub alive: bool,
    pub stalled: bool,
    pub stall_wakers: Vec<Waker>,
    /// Stalls, from and until.
    pub stalls: Vec<(u64, u64)>,
    /// Await points passed in this life.
    pub points: u64,
    /// The await point at which it ends.
    pub crash_at: Option<PointAt>,
    /// The await point at which it is frozen.
    pub stall_at: Option<PointAt>,
    /// How often each await point was passed in this life.
    pub passed: BTreeMap<Point, u64>,
    pub shutdown: Option<Shutdown>,
    pub link: Link,
}

impl std::fmt::Display for Me {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "w{}.{} lane {}", self.worker, self.life, self.lane)
    }
}

impl Inside {
    pub fn is_alive(&self, me: Me) -> bool {
        let worker = &self.workers[me.worker];
        worker.alive && worker.life == me.life
    }

    pub fn passes(&mut self, me: Me, point: Point) -> bool {
        if !self.is_alive(me) {
            return false;
        }
        let (Point::Before(name) | Point::After(name)) = point;
        self.mark(&[me.worker as u64, u64::from(me.lane), name.len() as u64]);
        self.note(|| format!("{me} {point:?}"));
        let worker = &mut self.workers[me.worker];
        worker.points += 1;
        let passed = worker.passed.entry(point).or_insert(0);
        *passed += 1;
        let (points, passed) = (worker.points, *passed);
        let is_here = |at: Option<PointAt>| match at {
            Some(PointAt::Nth(nth)) => points == nth,
            Some(PointAt::Point(at, nth)) => at == point && passed == nth,
            None => false,
        };
        if is_here(worker.stall_at.take_if(|at| is_here(Some(*at)))) {
            let for_ms = self.rng.random_range(1_000..25_000);
            self.stall(me.worker, for_ms);
        }
        if is_here(self.workers[me.worker].crash_at) {
            self.crashed_at.insert(point);
            self.workers[me.worker].crash_at = None;
            self.crash(me.worker);
            return false;
        }
        true
    }

    /// The process ends here and now, and is started again in a while.
    pub fn crash(&mut self, worker: usize) {
        if !self.workers[worker].alive {
            return;
        }
        self.note(|| format!("w{worker} CRASHES"));
        self.workers[worker].alive = false;
        self.oracle.crashed(worker);
        // What was sent may be lost with the process, or be on its way.
        if self.rng.random_bool(0.5) {
            self.workers[worker].link.cut();
        }
        self.hang_up(worker);
        self.orders.push(Order::Kill(worker));
        let back = self.rng.random_range(50..8_000);
        self.after(back, move |inside| inside.orders.push(Order::Start(worker)));
    }

    /// Freezes a worker, as a virtual machine that is moved, or a process that is stopped, is.
    pub fn stall(&mut self, worker: usize, for_ms: u64) {
        let until = self.now + for_ms;
        let life = self.workers[worker].life;
        if !self.workers[worker].alive || self.workers[worker].stalled {
            return;
        }
        self.note(|| format!("w{worker} stalls for {for_ms} ms"));
        self.workers[worker].stalled = true;
        self.workers[worker].stalls.push((self.now, until));
        self.at(until, move |inside| {
            if inside.workers[worker].life == life {
                inside.unstall(worker);
            }
        });
    }

    pub fn unstall(&mut self, worker: usize) {
        self.workers[worker].stalled = false;
        for waker in self.workers[worker].stall_wakers.drain(..) {
            waker.wake();
        }
        self.pull_all(worker);
    }

    /// How long a worker was frozen since an instant.
    pub fn stalled_since(&self, worker: usize, since: u64) -> u64 {
        let stalls = self.workers[worker].stalls.iter();
        stalls.map(|(from, until)| until.min(&self.now).saturating_sub(*from.max(&since))).sum()
    }

    /// A worker begins a life. Returns which, and how many lanes it works.
    pub fn begin(&mut self, worker: usize, shutdown: &Shutdown) -> Option<(u64, u32)> {
        if self.workers[worker].alive || self.ending {
            return None;
        }
        self.clients.retain(|_, client| client.me.worker != worker);
        let again = self.plan.crash_again_permille;
        let armed = self.workers[worker].life > 0 && !self.calm && self.chance(again);
        let crash_at = armed.then(|| PointAt::any(&mut self.rng));
        let state = &mut self.workers[worker];
        state.life += 1;
        state.alive = true;
        state.stalled = false;
        state.points = 0;
        state.passed.clear();
        // Where it has not come to in this life it may come in the next.
        state.crash_at = state.crash_at.or(crash_at);
        state.shutdown = Some(shutdown.clone());
        let life = state.life;
        self.note(|| format!("w{worker} begins life {life}"));
        Some((life, self.plan.lanes))
    }

    /// A worker has ended as it was told to. It is started again in a while.
    pub fn ended(&mut self, worker: usize) {
        if !self.workers[worker].alive {
            return;
        }
        self.note(|| format!("w{worker} has ended"));
        self.workers[worker].alive = false;
        self.hang_up(worker);
        let back = self.rng.random_range(50..8_000);
        self.after(back, move |inside| inside.orders.push(Order::Start(worker)));
    }
}
