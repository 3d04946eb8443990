//! The desk over a queue of its own, at a clock that moves when everybody waits for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::task::JoinHandle;
use uuid::Uuid;

use super::*;
use crate::wake::RunnerId;

/// Runs are numbers.
#[derive(Debug, Clone, Default)]
struct Numbers {
    queue: Arc<Mutex<VecDeque<u32>>>,
    looks: Arc<Mutex<Vec<Vec<String>>>>,
    away: Arc<Mutex<bool>>,
}

impl Numbers {
    fn put(&self, runs: impl IntoIterator<Item = u32>) {
        self.queue.lock().unwrap().extend(runs);
    }

    fn looks(&self) -> usize {
        self.looks.lock().unwrap().len()
    }
}

impl Source for Numbers {
    type Run = u32;

    async fn claim(&self, asks: &[Ask]) -> Result<Vec<Vec<u32>>, StoreError> {
        let names = asks.iter().map(|ask| ask.runner.to_string()).collect();
        self.looks.lock().unwrap().push(names);
        if *self.away.lock().unwrap() {
            return Err(StoreError::Unavailable { error: "away".to_owned() });
        }
        let mut queue = self.queue.lock().unwrap();
        let mut take = |ask: &Ask| {
            let runs = queue.len().min(ask.runs_max as usize);
            queue.drain(..runs).collect()
        };
        Ok(asks.iter().map(&mut take).collect())
    }
}

struct Office {
    numbers: Numbers,
    desk: Desk<u32>,
    signals: Signals,
    shutdown: Shutdown,
    clerk: JoinHandle<()>,
}

#[expect(clippy::disallowed_methods, reason = "a test awaits what it spawns")]
fn office(waiters_max: usize) -> Office {
    let numbers = Numbers::default();
    let signals = Signals { here: Work::default(), elsewhere: Work::default() };
    let shutdown = Shutdown::new();
    let options = DeskOptions { waiters_max, look_again: Duration::from_secs(5) };
    let metrics = Metrics::new(1);
    let (desk, clerk) = Desk::open(numbers.clone(), options, &signals, metrics, shutdown.clone());
    Office { numbers, desk, signals, shutdown, clerk: tokio::spawn(clerk) }
}

fn ask(runner: &str, runs_max: u32) -> Ask {
    let lease = Duration::from_secs(30);
    let runner = RunnerId::parse(runner).unwrap();
    Ask { claim_id: Uuid::nil(), runner, runs_max, organizations: Vec::new(), lease }
}

type Claim = JoinHandle<Result<Vec<u32>, ControlError>>;

#[expect(clippy::disallowed_methods, reason = "a test awaits what it spawns")]
fn claiming(office: &Office, runner: &str, wait: u64) -> Claim {
    let (desk, ask) = (office.desk.clone(), ask(runner, 1));
    tokio::spawn(async move { desk.claim(ask, Duration::from_secs(wait)).await })
}

/// Lets everybody do what they can do at this instant.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_is_there_is_given_at_once_and_none_is_told_at_once() {
    let office = office(8);
    office.numbers.put([1, 2, 3]);
    assert_eq!(office.desk.claim(ask("a", 2), Duration::ZERO).await.unwrap(), [1, 2]);
    let began = Instant::now();
    assert_eq!(office.desk.claim(ask("a", 2), Duration::from_mins(1)).await.unwrap(), [3]);
    assert_eq!(office.desk.claim(ask("a", 2), Duration::ZERO).await.unwrap(), [0_u32; 0]);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_waits_is_answered_when_there_is_work_wherever_it_was_made() {
    for elsewhere in [false, true] {
        let office = office(8);
        let began = Instant::now();
        let waiting = claiming(&office, "a", 60);
        settle().await;
        assert_eq!(office.numbers.looks(), 1);
        office.numbers.put([7]);
        let signals = &office.signals;
        if elsewhere { &signals.elsewhere } else { &signals.here }.announce();
        assert_eq!(waiting.await.unwrap().unwrap(), [7]);
        assert!(began.elapsed() <= 2 * GATHER_MIN, "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn who_came_first_is_served_first_and_nobody_is_served_twice() {
    let office = office(8);
    let mut waiting = Vec::new();
    for runner in ["a", "b", "c"] {
        waiting.push(claiming(&office, runner, 60));
        settle().await;
    }
    office.numbers.put([1, 2]);
    office.signals.here.announce();
    let (a, b) = (waiting.remove(0), waiting.remove(0));
    assert_eq!((a.await.unwrap().unwrap(), b.await.unwrap().unwrap()), (vec![1], vec![2]));
    office.numbers.put([3]);
    office.signals.here.announce();
    assert_eq!(waiting.remove(0).await.unwrap().unwrap(), [3]);
    let looks = office.numbers.looks.lock().unwrap().clone();
    assert!(looks.contains(&vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]), "{looks:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_over_when_it_is_and_a_lost_signal_costs_one_look_again() {
    let office = office(8);
    let began = Instant::now();
    assert_eq!(claiming(&office, "a", 3).await.unwrap().unwrap(), [0_u32; 0]);
    assert_eq!(began.elapsed().as_secs(), 3);
    let waiting = claiming(&office, "a", 60);
    settle().await;
    office.numbers.put([1]);
    let began = Instant::now();
    assert_eq!(waiting.await.unwrap().unwrap(), [1]);
    assert_eq!(began.elapsed().as_secs(), 5, "nobody said that there was work");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_signals_is_gathered() {
    let office = office(8);
    let waiting = claiming(&office, "a", 1);
    settle().await;
    let before = office.numbers.looks();
    let mut ticks = tokio::time::interval(Duration::from_micros(100));
    for _ in 0..5_000 {
        ticks.tick().await;
        office.signals.here.announce();
    }
    let looks = office.numbers.looks() - before;
    assert!((50..=110).contains(&looks), "{looks} looks in half a second");
    assert_eq!(waiting.await.unwrap().unwrap(), [0_u32; 0]);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_beyond_the_room_and_who_goes_away_makes_room() {
    let office = office(2);
    let (first, _second) = (claiming(&office, "a", 60), claiming(&office, "b", 60));
    settle().await;
    let refused = claiming(&office, "c", 60).await.unwrap().unwrap_err();
    assert_eq!(refused.code, ErrorCode::Busy);
    first.abort();
    settle().await;
    let third = claiming(&office, "c", 60);
    settle().await;
    assert!(!third.is_finished());
    office.numbers.put([1, 2]);
    office.signals.here.announce();
    assert_eq!(third.await.unwrap().unwrap(), [2], "the one that has gone away got nothing");
}

#[tokio::test(start_paused = true)]
async fn a_database_that_is_away_is_told_to_who_does_not_wait_and_waited_for_by_who_does() {
    let office = office(8);
    *office.numbers.away.lock().unwrap() = true;
    let told = claiming(&office, "a", 0).await.unwrap().unwrap_err();
    assert_eq!(told.code, ErrorCode::Unavailable);
    let waiting = claiming(&office, "b", 60);
    let short = claiming(&office, "c", 2).await.unwrap().unwrap_err();
    assert_eq!(short.code, ErrorCode::Unavailable, "it was never looked for it");
    *office.numbers.away.lock().unwrap() = false;
    office.numbers.put([1]);
    assert_eq!(waiting.await.unwrap().unwrap(), [1]);
}

#[tokio::test(start_paused = true)]
async fn the_end_answers_everybody() {
    let office = office(8);
    let waiting = claiming(&office, "a", 60);
    settle().await;
    office.shutdown.request();
    office.clerk.await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), [0_u32; 0]);
    let late = office.desk.claim(ask("b", 1), Duration::from_mins(1)).await.unwrap_err();
    assert_eq!(late.code, ErrorCode::Unavailable);
}
