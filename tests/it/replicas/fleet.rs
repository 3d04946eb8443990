//! Several replicas on one stage, and wakes for all of their lanes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::harness::until_some;
use crate::harness::worker::Worker;
use crate::harness::world::{Published, requested};
use crate::through_servers::stage::{Dialect, Setting, Stage};
use crate::through_servers::story::{assignment, by_agent};

/// Eight lanes with small batches, and times as short as a declaration allows.
pub const EIGHT: Setting = Setting {
    partitions: 8,
    batch_wakes_max: 16,
    ack_wait: Duration::from_secs(2),
    pin_timeout: Duration::from_secs(2),
};

/// Enough that each lane has several.
const TASKS: u64 = 64;
/// Between two wakes of the load: several hundred a second.
const EVERY: Duration = Duration::from_millis(3);

/// Servers for several replicas.
pub async fn stage() -> Arc<Stage> {
    Arc::new(Stage::with(Dialect::Postgres, EIGHT).await)
}

/// The `nth` event: of every kind in turn, for every task.
pub fn event(nth: u64) -> Published {
    let task = format!("t{}", nth % TASKS);
    let round = nth / TASKS;
    let agent = format!("a{}", nth % 4);
    match round % 10 {
        // Each twice, and some of those while the first is still queued.
        0..=2 => assignment(&task, &agent, round / 2),
        3..=7 => by_agent(&task, &format!("x{nth}")),
        8 => requested(0, &agent, json!({ "task_id": task, "nth": nth }), None),
        _ => assignment(&task, "", nth),
    }
}

/// Wakes for every lane, published until it is ended; each asks for its outcome.
pub struct Load {
    ending: watch::Sender<bool>,
    published: Arc<AtomicU64>,
    publishing: JoinSet<()>,
}

impl Load {
    pub fn begin(stage: &Arc<Stage>) -> Self {
        let ending = watch::Sender::new(false);
        let published = Arc::new(AtomicU64::new(0));
        let (ended, count, stage) = (ending.subscribe(), Arc::clone(&published), Arc::clone(stage));
        let mut publishing = JoinSet::new();
        publishing.spawn(async move {
            let mut ticks = tokio::time::interval(EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            while !*ended.borrow() {
                ticks.tick().await;
                stage.ask(&event(count.load(Ordering::Relaxed))).await;
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { ending, published, publishing }
    }

    /// Waits until this many more are published.
    pub async fn more(&self, events: u64) {
        let until = self.published.load(Ordering::Relaxed) + events;
        let ask = async || (self.published.load(Ordering::Relaxed) >= until).then_some(());
        until_some(ask, || "the load stands still".to_owned()).await;
    }

    /// Publishes no more, and returns how many there were.
    pub async fn end(mut self) -> usize {
        self.ending.send_replace(true);
        self.publishing.join_next().await.unwrap().unwrap();
        usize::try_from(self.published.load(Ordering::Relaxed)).unwrap()
    }
}

/// Lanes that a worker says it owns.
pub async fn owned(worker: &Worker) -> Vec<String> {
    worker.moved(&["wakegate_lane_owned"]).await.into_keys().collect()
}

/// Lanes that a worker gave up for another one's sake.
pub async fn handed_over(worker: &Worker) -> f64 {
    worker.scrape().await["wakegate_lane_hand_overs_total"]
}

/// Waits until the workers share the lanes like this, each lane with one of them; in any order,
/// largest first.
pub async fn until_shared(workers: &[&Worker], shares: &[usize]) {
    let ask = async || {
        let (found, lanes) = shared(workers).await;
        (found == shares && lanes == EIGHT.partitions as usize).then_some(())
    };
    until_some(ask, || told(workers, &format!("never shared as {shares:?}"))).await;
}

/// Waits until every lane is with one of the workers, and returns how long that took since then.
pub async fn until_owned(workers: &[&Worker], since: Instant) -> Duration {
    let ask = async || {
        let (_, lanes) = shared(workers).await;
        (lanes == EIGHT.partitions as usize).then(|| since.elapsed())
    };
    until_some(ask, || told(workers, "a lane has no owner")).await
}

/// Lanes of each worker, most first, and how many different lanes that are.
async fn shared(workers: &[&Worker]) -> (Vec<usize>, usize) {
    let mut lanes = Vec::new();
    let mut shares = Vec::new();
    for worker in workers {
        let of_it = owned(worker).await;
        shares.push(of_it.len());
        lanes.extend(of_it);
    }
    shares.sort_by_key(|share| std::cmp::Reverse(*share));
    // Said to be owned by two while it changes hands: not shared yet.
    let said = lanes.len();
    lanes.sort();
    lanes.dedup();
    (shares, if lanes.len() == said { said } else { 0 })
}

/// Waits until each of the workers hears so many replicas.
pub async fn until_heard(workers: &[&Worker], replicas: u32) {
    let ask = async || {
        for worker in workers {
            let heard = worker.scrape().await["wakegate_replicas"];
            if heard.total_cmp(&f64::from(replicas)).is_ne() {
                return None;
            }
        }
        Some(())
    };
    until_some(ask, || told(workers, &format!("they are never {replicas}"))).await;
}

fn told(workers: &[&Worker], what: &str) -> String {
    workers.iter().map(|worker| worker.told(what)).collect::<Vec<_>>().join("\n")
}
