//! One organization floods the queue, nine trickle. What the nine wait is a matter of how long runs
//! take, and not of the flood.

use std::collections::BinaryHeap;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use wakegate::store::queue::{ClaimRequest, Held, QueueStore as _, RunEnd};

use super::database::Queue;
use crate::queue_store::given::{Queued, asking, at, finishing, held, number, queued};

const SLOTS: u32 = 10;
const TRICKLERS: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
const FLOOD: u128 = 1_500;
/// Each trickler asks for a run a minute, for ten minutes.
const EVERY_S: i64 = 60;
const UNTIL_S: i64 = 600;
/// A run takes from ten to thirty seconds.
const RUN_S: std::ops::RangeInclusive<i64> = 10..=30;
/// From its request to its end a run of theirs takes at most so many times what it takes where there
/// is nobody else.
const FACTOR: f64 = 2.0;

/// What befalls the queue at an instant, the earliest first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Due(std::cmp::Reverse<i64>, std::cmp::Reverse<What>);

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Ends(u128, u64),
    Arrives(u128, usize),
}

/// Seconds from request to start and to end, for each run of the tricklers.
async fn play(seed: u64, flood: bool) -> Vec<(i64, i64)> {
    let mut rng = StdRng::seed_from_u64(seed);
    let queue = Queue::open().await;
    if flood {
        let runs: Vec<Queued> =
            (0..FLOOD).map(|nth| queued(1_000_000 + nth).of("flood").at(-1)).collect();
        queue.insert(&runs).await;
    }
    let mut due = BinaryHeap::new();
    let put = |due: &mut BinaryHeap<Due>, at: i64, what: What| {
        due.push(Due(std::cmp::Reverse(at), std::cmp::Reverse(what)));
    };
    let mut next = 1;
    for trickler in 0..TRICKLERS.len() {
        let first = rng.random_range(0..EVERY_S);
        for second in (first..UNTIL_S).step_by(usize::try_from(EVERY_S).unwrap()) {
            put(&mut due, second, What::Arrives(next, trickler));
            next += 1;
        }
    }
    // How long a run takes is its own, whoever else is there.
    let takes = |run: u128| {
        let run = u64::try_from(run).expect("runs are numbered from 0");
        StdRng::seed_from_u64(seed ^ run).random_range(RUN_S)
    };
    let mut asked = std::collections::BTreeMap::new();
    let mut waited = Vec::new();
    // The flood is at work before the first trickler comes.
    let mut now = -1;
    let mut claims = 0;
    loop {
        claims += 1;
        let request = ClaimRequest {
            platform_active_max: SLOTS,
            organization_active_max: SLOTS,
            lease_until: at(now + 10_000),
            ..asking(claims, SLOTS, now)
        };
        for run in queue.store.claim(&request).await.unwrap() {
            let Held { fencing_token, .. } = held(&run);
            let id = number(run.run_id);
            queue.store.start(&held(&run), at(now + 10_000), at(now)).await.unwrap();
            let ends = now + takes(id);
            put(&mut due, ends, What::Ends(id, fencing_token));
            if let Some(at) = asked.get(&id) {
                waited.push((now - at, ends - at));
            }
        }
        if asked.len() == next as usize - 1 && waited.len() == asked.len() {
            return waited;
        }
        let Some(Due(std::cmp::Reverse(then), std::cmp::Reverse(what))) = due.pop() else {
            panic!("{} of {} have run", waited.len(), next - 1)
        };
        now = then;
        match what {
            What::Arrives(id, trickler) => {
                queue.insert(&[queued(id).of(TRICKLERS[trickler]).at(now)]).await;
                asked.insert(id, now);
            }
            What::Ends(id, fencing_token) => {
                let by = Held { run_id: crate::queue_store::given::id(id), fencing_token };
                queue.store.finish(&finishing(by, RunEnd::Succeeded, now)).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_flood_of_one_organization_makes_the_others_wait_no_longer_than_a_run_takes() {
    for seed in 0..3 {
        let (alone, beside) = (play(seed, false).await, play(seed, true).await);
        assert_eq!(alone.len(), beside.len());
        let longest = beside.iter().map(|(wait, _)| *wait).max().unwrap();
        assert!(longest <= *RUN_S.end(), "seed {seed}: {longest} s, more than the longest run");
        let mean = |waited: &[(i64, i64)]| {
            let whole = waited.iter().map(|(_, whole)| i32::try_from(*whole).unwrap());
            let runs = f64::from(u32::try_from(waited.len()).unwrap());
            whole.map(f64::from).sum::<f64>() / runs
        };
        let (alone, beside) = (mean(&alone), mean(&beside));
        assert!(beside <= FACTOR * alone, "seed {seed}: {beside} s, {alone} s without the flood");
    }
}
