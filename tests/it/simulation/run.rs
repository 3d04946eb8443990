//! Runs a seed: starts the workers, ends them, and looks at what they leave.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::JoinSet;
use wakegate::admission::Dimension;
use wakegate::config::Config;
use wakegate::health::Health;
use wakegate::intake::BrokerError;
use wakegate::lane::process::Bench;
use wakegate::lane::{Holding, Lane, LaneOptions};
use wakegate::metrics::Metrics;
use wakegate::shutdown::Shutdown;
use wakegate::store::LaneKey;
use wakegate::traces::Tracer;
use wakegate::wake::UtcMicros;

use super::audit::SimAudit;
use super::consumer::SimConsumer;
use super::mistakes::{Mistake, MistakenAudit, MistakenConsumer, MistakenStore};
use super::oracle::{Breach, Invariant, STREAM};
use super::plan::Plan;
use super::store::SimStore;
use super::worker::{Me, Order, Point};
use super::world::{ACK_WAIT_MS, Inside, PIN_TIMEOUT_MS, World};
use crate::harness::world::{MINUTE, T0};
use crate::serial_model::play::shadows;

/// Longest that a worker takes to end once it is told to, in milliseconds.
const ENDS_WITHIN_MS: u64 = 60_000;

static METRICS: OnceLock<Metrics> = OnceLock::new();

/// What a run showed.
#[derive(Debug)]
pub struct Report {
    pub breaches: Vec<Breach>,
    /// Equal for equal runs.
    pub fingerprint: u64,
    pub trace: Vec<String>,
    pub crashed_at: BTreeSet<Point>,
    pub outcomes: Vec<String>,
    /// What gates in shadow would have refused wakes for.
    pub would_refuse: Vec<String>,
}

/// Runs one seed, with a mistake or without.
pub fn run(seed: u64, mistake: Option<Mistake>, traced: bool) -> Report {
    run_on(seed, mistake, traced, |plan| match mistake {
        // Without a queue that fills, or a gate in shadow, nothing is wrong with it.
        Some(Mistake::RoomNotHeld) => plan.queued_runs_max = Some(2),
        Some(Mistake::ShadowsForgotten | Mistake::ShadowsUntold) => plan.in_shadow = [true; 4],
        Some(Mistake::RoomUnseen | Mistake::RoomHeldInShadow) => {
            plan.queued_runs_max = Some(2);
            plan.in_shadow = [false, false, false, true];
        }
        _ => {}
    })
}

/// Runs one seed with a plan that is changed.
pub fn run_on(
    seed: u64,
    mistake: Option<Mistake>,
    traced: bool,
    change: impl FnOnce(&mut Plan),
) -> Report {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let mut plan = Plan::of(seed);
    change(&mut plan);
    let plan = Arc::new(plan);
    runtime.block_on(async {
        let unbounded = mistake == Some(Mistake::NoPendingLimit);
        let limit = if unbounded { usize::MAX } else { 2 * plan.batch_wakes_max };
        let world = World::new(seed, plan, traced, limit);
        // Nothing looks at what is counted, and registering it takes longer than many a run.
        let metrics = METRICS.get_or_init(|| Metrics::new(2)).clone();
        Driver { world, mistake, metrics, workers: Vec::new(), holding: Vec::new() }.run().await
    })
}

struct Driver {
    world: World,
    mistake: Option<Mistake>,
    metrics: Metrics,
    workers: Vec<JoinSet<Result<(), BrokerError>>>,
    /// What each lane waits for.
    holding: Vec<(Me, watch::Receiver<Option<Holding>>)>,
}

impl Driver {
    async fn run(mut self) -> Report {
        let (plan_workers, until) = self.world.with(|inside| {
            inside.arrange();
            (inside.plan.workers, inside.plan.settled_by_ms())
        });
        self.workers.resize_with(plan_workers, JoinSet::new);
        let settled = self.go_on_until(until, Inside::has_come_to_rest).await;
        if settled {
            self.world.with(Inside::calm_down);
            self.end().await;
            self.world.with(Inside::conclude);
        } else {
            self.world.with(|inside| {
                let open: Vec<usize> = (0..inside.plan.events.len())
                    .filter(|index| !inside.oracle.decided.contains_key(index))
                    .collect();
                let servers = format!("{:?}", inside.servers);
                inside.breach(Invariant::HoldEnds, || {
                    format!("not settled; not decided: {open:?}; {servers}")
                });
            });
        }
        drop(self.workers);
        self.world.with(|inside| Report {
            breaches: std::mem::take(&mut inside.oracle.breaches),
            fingerprint: inside.fingerprint(),
            trace: inside.take_trace(),
            crashed_at: std::mem::take(&mut inside.crashed_at),
            outcomes: inside.outcomes(),
            would_refuse: inside.would_refuse(),
        })
    }

    /// Lets the world go on until something holds; false if it does not in time, or a promise has
    /// been broken that the rest would only repeat.
    async fn go_on_until(&mut self, until: u64, holds: impl Fn(&mut Inside) -> bool) -> bool {
        loop {
            self.world.go_on().await;
            let orders = self.world.with(|inside| std::mem::take(&mut inside.orders));
            for order in orders {
                self.obey(order);
            }
            self.join();
            self.listen();
            let (done, late) = self.world.with(|inside| (holds(inside), inside.now > until));
            if done || late {
                return done;
            }
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Kill(worker) => self.workers[worker] = JoinSet::new(),
            Order::Start(worker) => self.start(worker),
        }
    }

    fn start(&mut self, worker: usize) {
        let shutdown = Shutdown::new();
        let started = self.world.with(|inside| inside.begin(worker, &shutdown));
        let Some((life, lanes)) = started else { return };
        for lane in 0..lanes {
            let me = Me { worker, life, lane };
            let lane = self.lane(me, &shutdown);
            let running = Stallable { world: self.world.clone(), me, inside: Box::pin(lane.run()) };
            self.workers[worker].spawn(running);
        }
    }

    fn lane(
        &mut self,
        me: Me,
        shutdown: &Shutdown,
    ) -> Lane<MistakenStore, MistakenAudit, MistakenConsumer> {
        let world = &self.world;
        let holding = watch::Sender::new(None);
        self.holding.push((me, holding.subscribe()));
        let (clock, plan) = world.with(|inside| (inside.clock.clone(), Arc::clone(&inside.plan)));
        let bench = Bench {
            store: MistakenStore::new(SimStore::new(world.clone(), me), self.mistake),
            audit: MistakenAudit::new(SimAudit::new(world.clone(), me), self.mistake),
            consumer: MistakenConsumer::new(SimConsumer { world: world.clone(), me }, self.mistake),
            metrics: self.metrics.clone(),
            clock: clock.clone(),
            component: Arc::from("worker"),
            lane: lane_key(me.lane),
            options: options(&plan),
            shadows: shadows(plan.in_shadow),
            tracer: Tracer::off(),
            holding,
            queue: wakegate::queue::work::Work::default(),
        };
        Lane::new(bench, Health::new(clock, 2, shutdown.clone()), shutdown.clone())
    }

    /// Takes notice of what lanes wait for. Here no database is restored from a backup.
    fn listen(&mut self) {
        self.holding.retain(|(_, holding)| holding.has_changed().is_ok());
        for (me, holding) in &mut self.holding {
            if !holding.has_changed().unwrap_or(false) {
                continue;
            }
            let Some(reason) = holding.borrow_and_update().as_ref().map(|of| of.reason.clone())
            else {
                continue;
            };
            if reason.contains("behind the stream") {
                self.world.with(|inside| {
                    inside.breach(Invariant::NotBehind, || format!("{me} says: {reason}"));
                });
            }
        }
    }

    /// Takes notice of lanes that have ended.
    fn join(&mut self) {
        for (worker, lanes) in self.workers.iter_mut().enumerate() {
            let had = !lanes.is_empty();
            while let Some(ended) = lanes.try_join_next() {
                let what = match ended {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => error.to_string(),
                    Err(error) => error.to_string(),
                };
                self.world.with(|inside| {
                    inside.breach(Invariant::Ends, || format!("a lane of w{worker}: {what}"));
                });
            }
            if had && lanes.is_empty() {
                self.world.with(|inside| inside.ended(worker));
            }
        }
    }

    /// Tells every worker to end, and waits.
    async fn end(&mut self) {
        let until = self.world.with(|inside| {
            inside.ending = true;
            for worker in &inside.workers {
                if let Some(shutdown) = &worker.shutdown {
                    shutdown.request();
                }
            }
            inside.now + ENDS_WITHIN_MS
        });
        let ended = self
            .go_on_until(until, |inside| inside.workers.iter().all(|worker| !worker.alive))
            .await;
        if !ended {
            self.world.with(|inside| {
                inside.breach(Invariant::Ends, || "a worker does not end".to_owned());
            });
        }
    }
}

pub fn lane_key(lane: u32) -> LaneKey {
    LaneKey {
        stream: Arc::from(STREAM),
        stream_created_at: UtcMicros::from_micros(T0 - 1_000 * MINUTE),
        lane,
    }
}

fn options(plan: &Plan) -> LaneOptions {
    let ceilings = Config::default().limits.ceilings;
    LaneOptions {
        batch_wakes_max: plan.batch_wakes_max,
        batch_bytes_max: 8 << 20,
        hold_backoff_min: Duration::from_millis(50),
        hold_backoff_max: Duration::from_secs(5),
        hold_backoff_jitter: 0.0,
        store_away_give_up: Duration::from_secs(30),
        ack_wait: Duration::from_millis(ACK_WAIT_MS),
        pin_timeout: Duration::from_millis(PIN_TIMEOUT_MS),
        ceilings: Some(match plan.queued_runs_max {
            Some(max) => ceilings.with(Dimension::QueuedPlatform, max),
            None => ceilings,
        }),
    }
}

/// A lane's future, which is not polled while its worker is frozen.
struct Stallable<F> {
    world: World,
    me: Me,
    inside: Pin<Box<F>>,
}

impl<F: Future> Future for Stallable<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let worker = self.me.worker;
        let frozen = self.world.with(|inside| {
            let worker = &mut inside.workers[worker];
            if worker.stalled {
                worker.stall_wakers.push(context.waker().clone());
            }
            worker.stalled
        });
        if frozen {
            return Poll::Pending;
        }
        self.inside.as_mut().poll(context)
    }
}
