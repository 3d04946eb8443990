//! Replicas that hear each other, and a server that pins each lane to one of those who pull it.

use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom as _;
use rand::{Rng as _, SeedableRng as _};

use super::*;

const LANES: u32 = 8;

fn times() -> Times {
    Times::of(&LaneOptions {
        batch_wakes_max: 500,
        batch_bytes_max: 8 << 20,
        hold_backoff_min: Duration::from_millis(50),
        hold_backoff_max: Duration::from_secs(5),
        hold_backoff_jitter: 0.0,
        store_away_give_up: Duration::from_secs(30),
        ack_wait: Duration::from_secs(12),
        pin_timeout: Duration::from_secs(5),
        ceilings: None,
    })
}

/// A replica, and what befalls it.
struct Replica {
    spreading: Spreading,
    database_ok: bool,
    /// Lanes that hold here.
    holding: BTreeSet<u32>,
    /// It says that it is here, and pulls nothing.
    ghost: bool,
}

/// A step is the time between two announcements. Wakes wait in every lane.
struct Cluster {
    now: Instant,
    rng: StdRng,
    replicas: Vec<(u32, Replica)>,
    started: u32,
    owners: Vec<Option<u32>>,
    /// When each lane's pin times out, where its owner is gone.
    pinned_until: Vec<Instant>,
    unowned_steps: Vec<u32>,
    given_up: u32,
    steps: u64,
}

impl Cluster {
    fn new(seed: u64) -> Self {
        let now = Instant::now();
        Self {
            now,
            rng: StdRng::seed_from_u64(seed),
            replicas: Vec::new(),
            started: 0,
            owners: vec![None; LANES as usize],
            pinned_until: vec![now; LANES as usize],
            unowned_steps: vec![0; LANES as usize],
            given_up: 0,
            steps: 0,
        }
    }

    fn start(&mut self) -> u32 {
        let name = self.started;
        self.started += 1;
        let spreading =
            Spreading::new(format!("r{name}"), "WAKES".to_owned(), i64::from(name), LANES, times());
        let replica =
            Replica { spreading, database_ok: true, holding: BTreeSet::new(), ghost: false };
        // As the worker does: it is heard first, then it pulls.
        let hello = replica.spreading.hello(self.now);
        self.tell(name, &hello);
        self.replicas.push((name, replica));
        let (now, others) = (self.now, self.said());
        let joined = self.replica(name);
        for said in others {
            joined.spreading.hear(&said, now);
        }
        joined.spreading.decide(now);
        name
    }

    fn replica(&mut self, name: u32) -> &mut Replica {
        &mut self.replicas.iter_mut().find(|(other, _)| *other == name).unwrap().1
    }

    /// Ends one: in order, or as a crash does.
    fn end(&mut self, name: u32, in_order: bool) {
        let now = self.now;
        let farewell = self.replica(name).spreading.farewell(now);
        self.replicas.retain(|(other, _)| *other != name);
        if in_order {
            self.tell(name, &farewell);
        }
        for (owner, until) in self.owners.iter_mut().zip(&mut self.pinned_until) {
            if *owner == Some(name) {
                *owner = None;
                let pinned_for = if in_order { 0 } else { 5 };
                *until = self.now + Duration::from_secs(pinned_for);
            }
        }
    }

    fn said(&self) -> Vec<Announcement> {
        self.replicas.iter().map(|(_, replica)| replica.spreading.announcement(self.now)).collect()
    }

    fn tell(&mut self, from: u32, said: &Announcement) {
        let now = self.now;
        for (name, replica) in &mut self.replicas {
            if *name != from {
                replica.spreading.hear(said, now);
            }
        }
    }

    fn step(&mut self) {
        self.now += times().announce_every;
        self.steps += 1;
        let mut order: Vec<u32> = self.replicas.iter().map(|(name, _)| *name).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, self.rng.random_range(0..=at));
        }
        for name in order {
            let owners = self.owners.clone();
            let now = self.now;
            let replica = self.replica(name);
            let seen: Vec<Seen> = (0..)
                .zip(owners)
                .map(|(lane, owner)| Seen {
                    owned: owner == Some(name),
                    holding: replica.holding.contains(&lane),
                })
                .collect();
            replica.spreading.see(&seen, replica.database_ok, now);
            let given_up = replica.spreading.decide(now).len();
            let said = replica.spreading.announcement(now);
            self.given_up += u32::try_from(given_up).unwrap();
            self.tell(name, &said);
        }
        self.serve();
        if self.steps.is_multiple_of(2) {
            let ownerless: Vec<bool> = self.owners.iter().map(Option::is_none).collect();
            let (now, pinned) = (self.now, self.pinned_until.clone());
            for (_, replica) in &mut self.replicas {
                let left = replica.spreading.left().into_iter();
                let looks: Vec<(u32, bool)> = left
                    .map(|lane| {
                        let at = lane as usize;
                        (lane, ownerless[at] && now >= pinned[at])
                    })
                    .collect();
                replica.spreading.looked(&looks, now);
            }
        }
    }

    /// The server: an owner keeps its lane for as long as it pulls.
    fn serve(&mut self) {
        for lane in 0..LANES as usize {
            let pulls = |replica: &Replica| {
                !replica.ghost && replica.spreading.stances().nth(lane) == Some(Stance::Pull)
            };
            let pulling = self.replicas.iter().filter(|(_, replica)| pulls(replica));
            let pulling: Vec<u32> = pulling.map(|(name, _)| *name).collect();
            let owner = self.owners[lane].filter(|owner| pulling.contains(owner));
            let free = self.now >= self.pinned_until[lane];
            let next = pulling.into_iter().filter(|_| free).choose(&mut self.rng);
            self.owners[lane] = owner.or(next);
            let unowned = &mut self.unowned_steps[lane];
            let nobody = self.owners[lane].is_none() && !self.replicas.is_empty();
            *unowned = if nobody { *unowned + 1 } else { 0 };
            // Eight steps are a pin's time-out: what a crash takes, and as much again.
            assert!(*unowned <= 16, "lane {lane} has no owner");
        }
    }

    fn steps(&mut self, steps: u32) {
        for _ in 0..steps {
            self.step();
        }
    }

    fn seconds(&mut self, seconds: u64) {
        let until = self.now + Duration::from_secs(seconds);
        while self.now < until {
            self.step();
        }
    }

    fn owned_by(&self, name: u32) -> usize {
        self.owners.iter().filter(|owner| **owner == Some(name)).count()
    }

    /// As equal as can be, each lane pulled by one, and nothing moves any more.
    fn is_spread(&mut self) {
        let given_up = self.given_up;
        self.steps(50);
        assert_eq!(self.given_up, given_up, "lanes go on moving");
        let shares: Vec<usize> =
            self.replicas.iter().map(|(name, _)| self.owned_by(*name)).collect();
        let (most, least) = (shares.iter().max().unwrap(), shares.iter().min().unwrap());
        assert!(most - least <= 1, "{shares:?}");
        assert_eq!(shares.iter().sum::<usize>(), LANES as usize, "{shares:?}");
        let pulled = self.replicas.iter().flat_map(|(_, replica)| replica.spreading.stances());
        let pulled = pulled.filter(|stance| *stance == Stance::Pull).count();
        assert_eq!(pulled, LANES as usize, "by one each");
    }
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Start,
    End(usize, bool),
}

fn events() -> impl Strategy<Value = Vec<(Event, u32)>> {
    let event = prop_oneof![
        Just(Event::Start),
        (any::<usize>(), any::<bool>()).prop_map(|(which, in_order)| Event::End(which, in_order)),
    ];
    prop::collection::vec((event, 0_u32..40), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn whoever_comes_and_goes_lanes_are_owned_and_end_up_spread(
        seed in any::<u64>(),
        events in events(),
    ) {
        let mut cluster = Cluster::new(seed);
        cluster.start();
        for (event, steps) in events {
            match event {
                Event::Start if cluster.replicas.len() < 6 => {
                    cluster.start();
                }
                Event::End(which, in_order) if cluster.replicas.len() > 1 => {
                    let at = which % cluster.replicas.len();
                    let name = cluster.replicas[at].0;
                    cluster.end(name, in_order);
                }
                Event::Start | Event::End(..) => {}
            }
            cluster.steps(steps);
        }
        // A lane that was given up several times lately rests before it is given up again.
        cluster.seconds(3 * 60);
        cluster.is_spread();
    }
}

#[test]
fn a_late_joiner_gets_its_share_once_it_has_been_steady_and_no_more_moves() {
    let mut cluster = Cluster::new(1);
    let first = cluster.start();
    cluster.steps(3);
    assert_eq!(cluster.owned_by(first), 8, "alone it has all, at once");
    let second = cluster.start();
    cluster.steps(7);
    assert_eq!((cluster.owned_by(second), cluster.given_up), (0, 0), "it may not stay");
    cluster.steps(4);
    assert_eq!((cluster.owned_by(second), cluster.given_up), (4, 4));
    cluster.start();
    cluster.steps(11);
    cluster.is_spread();
    assert_eq!(cluster.given_up, 6, "3, 3 and 2");
}

#[test]
fn what_a_leaver_had_is_pulled_at_once_and_what_a_crash_leaves_before_its_pin_times_out() {
    for in_order in [true, false] {
        let mut cluster = Cluster::new(2);
        let [one, _, _] = [cluster.start(), cluster.start(), cluster.start()];
        cluster.steps(20);
        cluster.end(one, in_order);
        cluster.steps(if in_order { 1 } else { 8 });
        assert!(cluster.owners.iter().all(Option::is_some), "{in_order} {:?}", cluster.owners);
        cluster.steps(30);
        cluster.is_spread();
    }
}

#[test]
fn a_replica_that_asks_for_lanes_and_never_comes_costs_ever_less() {
    let mut cluster = Cluster::new(3);
    let worker = cluster.start();
    cluster.steps(3);
    let ghost = cluster.start();
    cluster.replica(ghost).ghost = true;
    cluster.seconds(60 * 60);
    let a_lane = cluster.given_up / 4;
    assert!((3..=12).contains(&a_lane), "{a_lane} times an hour");
    cluster.seconds(60);
    assert!(cluster.owned_by(worker) >= 4);
}

#[test]
fn a_replica_that_comes_and_goes_moves_lanes_ever_more_seldom() {
    let mut cluster = Cluster::new(4);
    cluster.start();
    cluster.steps(3);
    for _ in 0..180 {
        let flapping = cluster.start();
        cluster.seconds(15);
        cluster.end(flapping, false);
        cluster.seconds(5);
    }
    let a_lane = cluster.given_up / 4;
    assert!((3..=12).contains(&a_lane), "{a_lane} times an hour, of 180");
}

#[test]
fn who_cannot_reach_its_database_keeps_no_lane_and_gets_none_until_it_can() {
    let mut cluster = Cluster::new(5);
    let [one, two, three] = [cluster.start(), cluster.start(), cluster.start()];
    cluster.steps(30);
    cluster.is_spread();
    let given_up = cluster.given_up;
    cluster.replica(one).database_ok = false;
    cluster.seconds(33);
    assert_eq!(cluster.given_up, given_up, "it may come back");
    cluster.seconds(6);
    assert_eq!(cluster.owned_by(one), 0);
    let later = cluster.start();
    cluster.end(two, true);
    cluster.seconds(60);
    assert_eq!(cluster.owned_by(one), 0);
    assert_eq!((cluster.owned_by(three), cluster.owned_by(later)), (4, 4));
    cluster.replica(one).database_ok = true;
    cluster.seconds(60);
    cluster.is_spread();
}

#[test]
fn what_nobody_can_work_moves_nowhere() {
    let mut cluster = Cluster::new(6);
    let names = [cluster.start(), cluster.start(), cluster.start()];
    cluster.steps(30);
    cluster.is_spread();
    let before = (cluster.owners.clone(), cluster.given_up);
    for name in names {
        cluster.replica(name).database_ok = false;
        cluster.step();
    }
    cluster.seconds(300);
    for name in names {
        cluster.replica(name).database_ok = true;
        cluster.step();
    }
    cluster.seconds(60);
    assert_eq!((cluster.owners.clone(), cluster.given_up), before);
}

#[test]
fn a_lane_that_holds_is_left_only_once_it_has_held_for_long_and_then_to_who_does_not() {
    let mut cluster = Cluster::new(7);
    let one = cluster.start();
    cluster.steps(3);
    cluster.replica(one).holding = (0..LANES).collect();
    let two = cluster.start();
    cluster.seconds(25);
    assert_eq!((cluster.owned_by(one), cluster.given_up), (8, 0));
    cluster.seconds(15);
    assert_eq!(cluster.owned_by(two), 8, "what holds here works there");
    cluster.replica(one).holding.clear();
    cluster.seconds(6 * 60);
    cluster.is_spread();
}
