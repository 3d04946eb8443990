//! The audit stream, behind a network that loses what is published, or its acknowledgement.

use futures_util::FutureExt as _;
use rand::Rng as _;
use wakegate::audit::memory::MemoryAudit;
use wakegate::audit::{AuditError, AuditEvent, AuditLog, Audited};
use wakegate::store::Recorded;

use super::plan::Weather;
use super::worker::{Me, Point};
use super::world::{Inside, World};

#[derive(Debug, Clone)]
pub struct SimAudit {
    pub world: World,
    pub me: Me,
}

impl SimAudit {
    pub fn new(world: World, me: Me) -> Self {
        Self { world, me }
    }
}

impl AuditLog for SimAudit {
    async fn publish(
        &self,
        recorded: Recorded,
        events: &[AuditEvent],
    ) -> Result<Audited, (Recorded, AuditError)> {
        // With nothing to publish nothing is asked of the server.
        if events.is_empty() {
            return Ok(audited(recorded));
        }
        self.world.pass(self.me, Point::Before("publish")).await;
        let (lag, stored, answered) = self.world.with(|inside| inside.publish_fate(events.len()));
        self.world.lag(self.me, lag).await;
        self.world.with(|inside| {
            for event in &events[..stored] {
                inside.audited(self.me, event);
            }
        });
        self.world.lag(self.me, lag / 2).await;
        self.world.pass(self.me, Point::After("publish")).await;
        if stored == events.len() && answered {
            return Ok(audited(recorded));
        }
        Err((recorded, AuditError { error: "not acknowledged in time".to_owned() }))
    }
}

/// The proof that follows once everything is stored.
pub fn audited(recorded: Recorded) -> Audited {
    let published = MemoryAudit::new().publish(recorded, &[]).now_or_never();
    published.expect("memory does not wait").expect("nothing is to be published")
}

impl Inside {
    /// How long it takes, how many of the events are stored, and whether that is acknowledged.
    fn publish_fate(&mut self, events: usize) -> (u64, usize, bool) {
        let lag = if self.rng.random_ratio(1, 10) { self.rng.random_range(1..500) } else { 0 };
        let flaky = self.is_weather(Weather::AuditFlaky) && self.chance(400);
        if self.is_weather(Weather::AuditAway) || flaky || self.noise() {
            return (lag + 1, self.rng.random_range(0..=events), false);
        }
        (lag, events, true)
    }
}
