//! Events of every kind, by a seed.

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;

use crate::harness::until_some;
use crate::harness::world::{Published, requested};
use crate::through_servers::stage::{Setting, Stage};
use crate::through_servers::story::{assignment, by_agent};

/// Two lanes with batches so small that a load takes many of them.
pub const SMALL: Setting = Setting {
    partitions: 2,
    batch_wakes_max: 16,
    ack_wait: std::time::Duration::from_secs(2),
    pin_timeout: std::time::Duration::from_secs(2),
};

/// Publishes events in an order that its seed gives.
pub struct Load {
    pub rng: StdRng,
    published: u64,
}

impl Load {
    #[expect(clippy::print_stderr, reason = "a failed test must say what it was seeded with")]
    pub fn new(seed: u64) -> Self {
        eprintln!("seed {seed}");
        Self { rng: StdRng::seed_from_u64(seed), published: 0 }
    }

    /// The next event.
    pub fn event(&mut self) -> Published {
        self.published += 1;
        let nth = self.published;
        let task = format!("t{}", self.rng.random_range(0..12));
        let agent = format!("a{}", self.rng.random_range(0..4));
        match self.rng.random_range(0..10) {
            // Some of them twice, and some of those while the first is still queued.
            0..=3 => assignment(&task, &agent, self.rng.random_range(0..=nth)),
            4..=6 => by_agent(&task, &format!("x{nth}")),
            7 => requested(0, &agent, json!({ "task_id": task, "nth": nth }), None),
            8 => assignment(&task, "", nth),
            _ => assignment(&task, &agent, nth).with(json!({ "type": "unheard.of.v1" })),
        }
    }

    /// Publishes so many, each acknowledged by the server.
    pub async fn publish(&mut self, stage: &Stage, events: usize) {
        for _ in 0..events {
            let event = self.event();
            stage.publish(&event).await;
        }
    }
}

/// Messages of all lanes that nobody has settled yet.
pub async fn open(stage: &Stage) -> u64 {
    let mut open = 0;
    for lane in 0..stage.setting.partitions {
        let info = stage.lane(lane).await;
        open += info.num_pending + info.num_ack_pending as u64;
    }
    open
}

/// Waits until at most so many are open.
pub async fn until_open(stage: &Stage, at_most: u64) {
    let ask = async || (open(stage).await <= at_most).then_some(());
    until_some(ask, || format!("never as few as {at_most} open; {}", stage.nats.log())).await;
}
