//! What one seed stands for: a stream of events, who works it, and what goes wrong meanwhile.

use rand::Rng as _;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use wakegate::admission::GateName;

use super::events::{EventFault, SimEvent, events};
use super::points::{PointAt, point_of_seed};
use super::worker::Point;
use crate::store_contract::given::READS;

/// Longest that faults go on, in milliseconds of simulated time.
pub const FAULTS_MS_MAX: u64 = 90_000;
/// Longest that everything may take to be settled once nothing fails any more.
const SETTLED_WITHIN_MS: u64 = 150_000;
/// And for each wake that ends the process: six deliveries, each after a restart and an `ack_wait`.
const SETTLED_WITHIN_MS_OF_DEADLY: u64 = 150_000;

/// One run, spelt out.
#[derive(Debug)]
pub struct Plan {
    pub lanes: u32,
    pub workers: usize,
    pub batch_wakes_max: usize,
    /// How many runs may be queued, where that is ever met.
    pub queued_runs_max: Option<u32>,
    /// Which gates are in shadow: agent status, pause, allowance, capacity.
    pub in_shadow: [bool; 4],
    pub events: Vec<SimEvent>,
    /// When each event is published.
    pub published_ms: Vec<u64>,
    pub acts: Vec<(u64, Act)>,
    pub spells: Vec<Spell>,
    /// How many in a thousand calls fail without any reason, while faults go on.
    pub noise_permille: u32,
    /// The first crash of each worker.
    pub crash_points: Vec<Option<PointAt>>,
    /// Where each worker is frozen for a while.
    pub stall_points: Vec<Option<PointAt>>,
    /// How many in a thousand restarts are armed to crash again.
    pub crash_again_permille: u32,
    /// In so many of a thousand records a runner takes the run that is to be joined just before.
    pub quick_runner_permille: u32,
    pub faults_until_ms: u64,
}

/// Something that somebody does at an instant.
#[derive(Debug, Clone)]
pub enum Act {
    Pause {
        organization: Option<&'static str>,
    },
    Resume {
        organization: Option<&'static str>,
    },
    Agent {
        organization: &'static str,
        agent: &'static str,
        status: &'static str,
    },
    /// A runner takes a queued run, the nth counted from the newest.
    Claim(usize),
    /// A claimed run ends, or goes back to the queue.
    Move {
        nth: usize,
        status: &'static str,
    },
    BrokerRestart {
        crashed: bool,
        away_ms: u64,
    },
    LinkBreak {
        worker: usize,
        away_ms: u64,
    },
    /// An operator unpins the lanes.
    Unpin,
    Crash {
        worker: usize,
    },
    Stop {
        worker: usize,
    },
    Stall {
        worker: usize,
        for_ms: u64,
    },
}

/// Something that is so for a while.
#[derive(Debug, Clone, Copy)]
pub struct Spell {
    pub from_ms: u64,
    pub until_ms: u64,
    pub of: Weather,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    StoreAway,
    StoreFlaky,
    StoreSlow,
    ReadFails(GateName),
    AuditAway,
    AuditFlaky,
    NetworkSlow,
    NetworkLossy,
    /// Some of what is sent takes its time.
    NetworkUneven,
    /// Now and then a delivery is lost.
    NetworkLeaky,
}

impl Weather {
    /// Whether a lane has to wait for the store in it.
    fn holds(self) -> bool {
        matches!(self, Self::StoreAway | Self::ReadFails(_))
    }
}

impl Plan {
    /// When everything must be settled.
    pub fn settled_by_ms(&self) -> u64 {
        let is_deadly = |event: &&SimEvent| event.fault.is_some_and(EventFault::is_deadly);
        let deadly = self.events.iter().filter(is_deadly).count() as u64;
        self.faults_until_ms + SETTLED_WITHIN_MS + deadly * SETTLED_WITHIN_MS_OF_DEADLY
    }

    /// One worker, and nothing happens.
    pub fn nothing() -> Self {
        Self {
            lanes: 1,
            workers: 1,
            batch_wakes_max: 1,
            queued_runs_max: None,
            in_shadow: [false; 4],
            events: Vec::new(),
            published_ms: Vec::new(),
            acts: Vec::new(),
            spells: Vec::new(),
            noise_permille: 0,
            crash_points: vec![None],
            stall_points: vec![None],
            crash_again_permille: 0,
            quick_runner_permille: 0,
            faults_until_ms: 0,
        }
    }

    /// Nothing happens but that whoever decides first is frozen amid its acknowledgements, of which
    /// some get lost, and so does some of what is then delivered to another worker.
    fn acknowledge_late(&mut self, rng: &mut StdRng) {
        self.batch_wakes_max = 2;
        self.events.truncate(4);
        self.published_ms = vec![0; self.events.len()];
        self.acts = (0..self.workers)
            .map(|worker| {
                let away_ms = rng.random_range(1..200);
                (rng.random_range(1..200), Act::LinkBreak { worker, away_ms })
            })
            .collect();
        let until_ms = self.faults_until_ms;
        let spell = |of| Spell { from_ms: 0, until_ms, of };
        self.spells = [Weather::NetworkLossy, Weather::NetworkUneven].map(spell).into();
        self.crash_points.fill(None);
        self.stall_points.fill(Some(PointAt::Point(Point::Before("acknowledge"), 2)));
        self.noise_permille = 0;
    }

    /// Nothing happens but that an organization is paused while the lanes wait for the database.
    fn pause_amid_hold(&mut self, rng: &mut StdRng) {
        let until_ms = rng.random_range(20_000..29_000);
        self.faults_until_ms = self.faults_until_ms.max(30_000);
        self.published_ms = vec![0; self.events.len()];
        let acme = Some("acme");
        self.acts = vec![
            (rng.random_range(1_000..5_000), Act::Pause { organization: acme }),
            (self.faults_until_ms, Act::Resume { organization: acme }),
        ];
        self.spells =
            vec![Spell { from_ms: 0, until_ms, of: Weather::ReadFails(GateName::Coalesce) }];
        self.crash_points.fill(None);
        self.stall_points.fill(None);
        self.noise_permille = 0;
    }

    pub fn of(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let rng = &mut rng;
        let lanes = if rng.random_ratio(1, 3) { 2 } else { 1 };
        let workers = rng.random_range(1..=3);
        let faults_until_ms = rng.random_range(5_000..=FAULTS_MS_MAX);
        let mut spells = spells(rng, faults_until_ms);
        let crashing = rng.random_ratio(1, 2);
        let mut crash_points = points_of(rng, if crashing { workers } else { 0 }, workers);
        if let Some(point) = point_of_seed(seed) {
            crash_points[0] = Some(PointAt::nth_of(rng, point));
        }
        let stalling = rng.random_ratio(1, 5);
        let mut stall_points = points_of(rng, if stalling { workers } else { 0 }, workers);
        let mut acts = acts(rng, workers, faults_until_ms);
        pauses_in_holds(rng, &spells, faults_until_ms, &mut acts);
        let names = crash_points.iter().map(|crash| crash.and_then(PointAt::name));
        let names: Vec<&str> = names.map(Option::unwrap_or_default).collect();
        let deadly = names.iter().any(|name| name.ends_with("isolated"));
        let gives_back = names.contains(&"give_back");
        if gives_back {
            let of = Weather::StoreAway;
            spells.push(Spell { from_ms: 200, until_ms: faults_until_ms.min(9_000), of });
        }
        for (worker, name) in names.iter().enumerate() {
            // These are called only by a worker that ends, the first only while it waits.
            if ["give_back", "flush", "unpin"].contains(name) {
                let within = if gives_back { 1_500..5_000 } else { 0..faults_until_ms };
                acts.push((rng.random_range(within), Act::Stop { worker }));
            }
        }
        let count = rng.random_range(3..=40);
        let events = events(rng, lanes, count, deadly);
        let over_ms = if gives_back { 1 } else { rng.random_range(0..3) };
        let over_ms = [1, 3_000, faults_until_ms][over_ms];
        let mut published_ms: Vec<u64> =
            (0..events.len()).map(|_| rng.random_range(0..=over_ms)).collect();
        published_ms.sort_unstable();
        if workers > 1 && rng.random_ratio(1, 2) {
            hand_overs(rng, &mut stall_points, faults_until_ms, &mut spells, &mut acts);
        }
        let mut plan = Self {
            lanes,
            workers,
            batch_wakes_max: rng.random_range(1..=6),
            queued_runs_max: None,
            in_shadow: [false; 4],
            acts,
            spells,
            noise_permille: [0, 0, 10, 60][rng.random_range(0..4)],
            crash_points,
            stall_points,
            crash_again_permille: if crashing { 500 } else { 0 },
            quick_runner_permille: [0, 300, 700][rng.random_range(0..3)],
            events,
            published_ms,
            faults_until_ms,
        };
        match rng.random_range(0..15) {
            0 if workers > 1 => plan.acknowledge_late(rng),
            1 => plan.pause_amid_hold(rng),
            _ => {}
        }
        plan
    }
}

/// Await points of the first workers; at the others nothing happens.
fn points_of(rng: &mut StdRng, of: usize, workers: usize) -> Vec<Option<PointAt>> {
    let mut point = |worker| (worker < of && rng.random_ratio(2, 3)).then(|| PointAt::any(rng));
    (0..workers).map(&mut point).collect()
}

/// Somebody pauses while a lane waits.
fn pauses_in_holds(rng: &mut StdRng, spells: &[Spell], until: u64, acts: &mut Vec<(u64, Act)>) {
    for spell in spells.iter().filter(|spell| spell.of.holds()) {
        if rng.random_bool(0.5) {
            let from = rng.random_range(spell.from_ms..spell.until_ms);
            let until = rng.random_range(spell.until_ms..=until);
            acts.push((from, Act::Pause { organization: Some("acme") }));
            acts.push((until, Act::Resume { organization: Some("acme") }));
        }
    }
}

/// The lane goes from hand to hand, over a network on which nothing is sure.
fn hand_overs(
    rng: &mut StdRng,
    stall_points: &mut [Option<PointAt>],
    until: u64,
    spells: &mut Vec<Spell>,
    acts: &mut Vec<(u64, Act)>,
) {
    let workers = stall_points.len();
    // Who is frozen here acknowledges late what it has decided.
    for stall in stall_points {
        if rng.random_bool(0.5) {
            let point = Point::Before(["acknowledge", "publish"][rng.random_range(0..2)]);
            *stall = Some(PointAt::Point(point, rng.random_range(1..=6)));
        }
    }
    for of in [Weather::NetworkUneven, Weather::NetworkLeaky] {
        if rng.random_ratio(3, 4) {
            spells.push(Spell { from_ms: 0, until_ms: until, of });
        }
    }
    let mut at = 0;
    loop {
        at += rng.random_range(500..12_000);
        if at >= until {
            return;
        }
        let worker = rng.random_range(0..workers);
        let act = match rng.random_range(0..8) {
            0 | 1 => Act::BrokerRestart { crashed: true, away_ms: rng.random_range(1..2_000) },
            2 => Act::LinkBreak { worker, away_ms: rng.random_range(1..9_000) },
            3 => Act::Crash { worker },
            4 => Act::Unpin,
            _ => Act::Stall { worker, for_ms: rng.random_range(3_000..18_000) },
        };
        acts.push((at, act));
    }
}

fn acts(rng: &mut StdRng, workers: usize, until: u64) -> Vec<(u64, Act)> {
    let mut acts = Vec::new();
    for _ in 0..rng.random_range(0..=8) {
        let at = rng.random_range(0..until);
        let act = match rng.random_range(0..10) {
            0..3 => Act::Claim(rng.random_range(0..3)),
            3 => Act::Move {
                nth: rng.random_range(0..3),
                status: ["queued", "succeeded", "failed"][rng.random_range(0..3)],
            },
            4..7 => {
                let organization = [None, Some("acme"), Some("")][rng.random_range(0..3)];
                let end = at + rng.random_range(1..=until);
                acts.push((end.min(until), Act::Resume { organization }));
                Act::Pause { organization }
            }
            _ => {
                let (organization, agent) = ("acme", ["builder", "tester"][rng.random_range(0..2)]);
                let end = at + rng.random_range(1..=until);
                acts.push((end.min(until), Act::Agent { organization, agent, status: "idle" }));
                let status =
                    ["paused", "stopped", "pending_approval", "working"][rng.random_range(0..4)];
                Act::Agent { organization, agent, status }
            }
        };
        acts.push((at, act));
    }
    for _ in 0..rng.random_range(0..=5) {
        let at = rng.random_range(0..until);
        let worker = rng.random_range(0..workers);
        let long = if rng.random_bool(0.5) { 300 } else { 15_000 };
        let away_ms = rng.random_range(1..=long);
        acts.push((
            at,
            match rng.random_range(0..7) {
                0 => Act::BrokerRestart { crashed: rng.random_bool(0.7), away_ms },
                1 | 2 => Act::LinkBreak { worker, away_ms },
                3 => Act::Crash { worker },
                4 => Act::Stop { worker },
                _ => Act::Stall { worker, for_ms: away_ms.max(1_000) * 2 },
            },
        ));
    }
    acts
}

fn spells(rng: &mut StdRng, until: u64) -> Vec<Spell> {
    let mut spells = Vec::new();
    for _ in 0..rng.random_range(0..=4) {
        let from_ms = rng.random_range(0..until);
        let long = [500, 5_000, 45_000][rng.random_range(0..3)];
        let until_ms = (from_ms + rng.random_range(1..=long)).min(until);
        let of = match rng.random_range(0..11) {
            0 | 1 => Weather::StoreAway,
            2 => Weather::StoreFlaky,
            3 => Weather::StoreSlow,
            4 | 5 => Weather::ReadFails(READS[rng.random_range(0..READS.len())]),
            6 => Weather::AuditAway,
            7 => Weather::AuditFlaky,
            8 => Weather::NetworkSlow,
            9 => Weather::NetworkLossy,
            // Only two failures in a row show.
            _ => Weather::ReadFails(GateName::Allowance),
        };
        spells.push(Spell { from_ms, until_ms, of });
    }
    spells
}
