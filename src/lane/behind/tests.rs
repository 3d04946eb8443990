use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::admission::Shadows;
use crate::audit::{AckPermit, MemoryAudit};
use crate::clock::Clock;
use crate::intake::{Delivery, LaneFeed, LaneInfo, StreamView, Verdict};
use crate::lane::LaneOptions;
use crate::metrics::Metrics;
use crate::store::memory::MemoryStore;
use crate::store::{BatchRecord, LaneKey};
use crate::traces::Tracer;
use crate::wake::UtcMicros;

/// A lane of which the stream keeps every message up to 9.
#[derive(Debug, Clone)]
struct Kept;

impl LaneFeed for Kept {
    async fn next(&mut self) -> Result<Delivery, BrokerError> {
        std::future::pending().await
    }
}

impl LaneConsumer for Kept {
    type Feed = Self;

    async fn open(&self) -> Result<Self, BrokerError> {
        Ok(Self)
    }

    async fn info(&self) -> Result<LaneInfo, BrokerError> {
        Ok(LaneInfo::default())
    }

    async fn stream(&self) -> Result<StreamView, BrokerError> {
        let created = UtcMicros::from_micros(0);
        Ok(StreamView { created, first_sequence: 1, last_sequence: 9, removed_amid: 0 })
    }

    async fn next_after(&self, sequence: u64) -> Result<Option<u64>, BrokerError> {
        Ok((sequence < 9).then_some(sequence + 1))
    }

    async fn progress(&self, _: &Delivery) -> Result<(), BrokerError> {
        Ok(())
    }

    async fn give_back(&self, _: &Delivery) -> Result<(), BrokerError> {
        Ok(())
    }

    async fn acknowledge(
        &self,
        _: &Delivery,
        _: Verdict,
        _: AckPermit<'_>,
    ) -> Result<(), BrokerError> {
        Ok(())
    }

    async fn tell(&self, _: &str, _: String) {}

    async fn flush(&self) -> Result<(), BrokerError> {
        Ok(())
    }

    async fn unpin(&self) -> Result<(), BrokerError> {
        Ok(())
    }
}

/// A lane that is decided up to here.
async fn decided(sequence: u64) -> Bench<MemoryStore, MemoryAudit, Kept> {
    let created = UtcMicros::from_micros(0);
    let lane = LaneKey { stream: Arc::from("WAKES"), stream_created_at: created, lane: 0 };
    let store = MemoryStore::new();
    let from = store.lane_cursor(&lane).await.unwrap();
    let to = LaneCursor { decided_sequence: sequence, ..from };
    store.record(&BatchRecord::new(&lane, from, to)).await.unwrap();
    Bench {
        store,
        audit: MemoryAudit::new(),
        consumer: Kept,
        metrics: Metrics::new(1),
        clock: Clock::manual(created),
        component: Arc::from("worker"),
        lane,
        options: LaneOptions {
            batch_wakes_max: 10,
            batch_bytes_max: 8 << 20,
            hold_backoff_min: Duration::from_millis(50),
            hold_backoff_max: Duration::from_secs(5),
            hold_backoff_jitter: 0.0,
            store_away_give_up: Duration::from_secs(30),
            ack_wait: Duration::from_secs(12),
            pin_timeout: Duration::from_secs(5),
            ceilings: None,
        },
        shadows: Shadows::default(),
        tracer: Tracer::off(),
        holding: tokio::sync::watch::Sender::new(None),
        queue: crate::queue::work::Work::default(),
    }
}

/// 5 is decided, and its last owner acknowledges it late; so one is missing, and as many are
/// unacknowledged as are held.
#[tokio::test(start_paused = true)]
async fn a_lane_is_not_behind_for_what_is_missing_while_it_holds_what_is_decided() {
    for (held, taken_up) in [
        (vec![5, 7, 8, 9], true),
        (vec![6, 7, 8, 9], true),
        // Nothing in hand is decided: 6 is acknowledged, in a database that is not this one.
        (vec![7, 8, 9], false),
    ] {
        let bench = decided(5).await;
        let told = format!("{held:?}");
        let taking = bench.take_up(Taken { delivered: 9, held });
        let taken = tokio::time::timeout(Duration::from_mins(1), taking).await;
        assert_eq!(taken.is_ok(), taken_up, "{told}");
        assert_eq!(bench.holding.borrow().is_none(), taken_up, "{told}");
    }
}
