//! What a batch costs the worker itself, without any server: `cargo bench --bench micro`.
//!
//! Times of a busy machine vary; instructions repeat. Count them with
//! `valgrind --tool=callgrind <the binary that cargo names> --bench <name>`.

#[path = "throughput/workloads.rs"]
#[expect(dead_code, reason = "what the workloads are to become is not checked here")]
mod workloads;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use divan::Bencher;
use divan::counter::ItemsCount;
use tokio::runtime::{Builder, Runtime};
use wakegate::admission::facts::{CountedRuns, Facts, Pauses, QueuedRuns, Room};
use wakegate::admission::{Ceilings, Shadows, decide_batch};
use wakegate::audit::AckPermit;
use wakegate::audit::memory::MemoryAudit;
use wakegate::clock::Clock;
use wakegate::config::Config;
use wakegate::intake::{
    BrokerError, Delivery, LaneConsumer, LaneFeed, LaneInfo, StreamView, Verdict,
};
use wakegate::lane::LaneOptions;
use wakegate::lane::hold::JITTER;
use wakegate::lane::process::{BatchEnd, Bench};
use wakegate::metrics::Metrics;
use wakegate::store::memory::MemoryStore;
use wakegate::store::sqlite::SqliteStore;
use wakegate::store::{Database as _, LaneCursor, LaneKey, Store, StoreOptions};
use wakegate::traces::Tracer;
use wakegate::wake::decode::{Content, Message, decode};
use wakegate::wake::{UtcMicros, Wake};

use crate::workloads::Workload;

const BATCH: usize = 500;
/// As many as there are samples, and those that divan takes to set itself up.
const SQLITE_BATCHES: usize = 60;
const STORED_AT_NANOS: i128 = 1_790_000_000_000_000_000;

fn main() {
    divan::main();
}

/// Bytes to wakes.
#[divan::bench]
fn decoding(bencher: Bencher<'_, '_>) {
    let messages = messages();
    bencher
        .counter(ItemsCount::new(BATCH))
        .bench_local(|| messages.iter().map(decode).collect::<Vec<_>>());
}

/// The gates, on a database in which nothing was found.
#[divan::bench]
fn deciding(bencher: Bencher<'_, '_>) {
    let wakes = wakes();
    let wakes: Vec<&Wake> = wakes.iter().map(Arc::as_ref).collect();
    bencher
        .counter(ItemsCount::new(BATCH))
        .with_inputs(nothing_known)
        .bench_local_refs(|facts| decide_batch(facts, &wakes, Shadows::default()));
}

/// From deliveries to acknowledgements, on a store and an audit log in memory.
#[divan::bench]
fn whole_batch(bencher: Bencher<'_, '_>) {
    let runtime = runtime();
    bencher
        .counter(ItemsCount::new(BATCH))
        .with_inputs(|| (bench(), deliveries()))
        .bench_local_values(|(bench, batch)| settled(&runtime, &bench, batch));
}

/// The same batch once more: what is left is decoding, recognising and settling.
#[divan::bench]
fn settling_a_redelivery(bencher: Bencher<'_, '_>) {
    let runtime = runtime();
    bencher
        .counter(ItemsCount::new(BATCH))
        .with_inputs(|| {
            let bench = bench();
            settled(&runtime, &bench, deliveries());
            (bench, deliveries())
        })
        .bench_local_values(|(bench, batch)| settled(&runtime, &bench, batch));
}

/// Batches one after the other into a SQLite file of their own, with the ceilings in force or not: SQLite
/// runs in this process, so that what gate 6 costs there can be counted.
#[divan::bench(args = ["mixed off", "mixed on", "admit off", "admit on"], sample_count = 20, sample_size = 1)]
fn whole_batch_on_sqlite(bencher: Bencher<'_, '_>, case: &str) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("it needs no resource");
    let _within = runtime.enter();
    let directory = tempfile::tempdir().expect("there is room for a file");
    let url = format!("sqlite://{}/wakegate.db", directory.path().display());
    let store = SqliteStore::connect(&url, &StoreOptions::default()).expect("it is a file's");
    runtime.block_on(store.migrate()).expect("it is a new file");
    let mut bench = bench_on(store);
    bench.options.ceilings = case.ends_with("on").then(ceilings);
    let workload = if case.starts_with("mixed") { Workload::Mixed } else { Workload::Admit };
    let mut left = deliveries_of(workload, SQLITE_BATCHES * BATCH).into_iter();
    bencher
        .counter(ItemsCount::new(BATCH))
        .with_inputs(move || left.by_ref().take(BATCH).collect::<Vec<_>>())
        .bench_local_values(|batch| {
            assert_eq!(batch.len(), BATCH, "there is a batch for each sample");
            settled(&runtime, &bench, batch)
        });
}

fn messages() -> Vec<Message> {
    messages_of(Workload::Mixed, BATCH)
}

fn messages_of(workload: Workload, count: usize) -> Vec<Message> {
    let message = |(event, at): (workloads::Event, u64)| {
        let stored_at_nanos = STORED_AT_NANOS + i128::from(at) * 1_000;
        Message {
            stream: Arc::from("WAKES"),
            sequence: at,
            stored_at_nanos,
            requested_at: UtcMicros::from_nanos(stored_at_nanos),
            subject: Arc::from(event.subject.replacen("wakes.", "wakes.3.", 1)),
            body: event.body,
            traceparent: None,
            tracestate: None,
            outcome_to: None,
        }
    };
    workload.events(count, 1).into_iter().zip(1..).map(message).collect()
}

fn deliveries() -> Vec<Arc<Delivery>> {
    deliveries_of(Workload::Mixed, BATCH)
}

fn deliveries_of(workload: Workload, count: usize) -> Vec<Arc<Delivery>> {
    let delivery = |message: Message| Delivery {
        consumer_sequence: message.sequence,
        deliveries: 1,
        pending: 0,
        pin_id: None,
        reply: Arc::from("$JS.ACK.WAKES.lane-3"),
        message,
    };
    messages_of(workload, count).into_iter().map(delivery).map(Arc::new).collect()
}

fn wakes() -> Vec<Arc<Wake>> {
    let wakes = messages().into_iter().filter_map(|message| match decode(&message).content {
        Content::Wake(wake) => Some(wake),
        Content::NoWake(_) | Content::Rejected(_) => None,
    });
    let wakes: Vec<Arc<Wake>> = wakes.collect();
    assert_eq!(wakes.len(), BATCH, "every event of the workload is a wake");
    wakes
}

fn nothing_known() -> Facts {
    Facts {
        decided_sequence: 0,
        identity: Ok(HashMap::new()),
        agents: Ok(HashMap::new()),
        pauses: Ok(Pauses::default()),
        keys: Ok(HashMap::new()),
        queued: Ok(QueuedRuns::default()),
        counted: Ok(CountedRuns::default()),
        ceilings: Some(ceilings()),
        room: Ok(Room::default()),
    }
}

fn ceilings() -> Ceilings {
    Config::default().limits.ceilings
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime needs no resource")
}

fn bench() -> Bench<MemoryStore, MemoryAudit, Acknowledged> {
    bench_on(MemoryStore::new())
}

fn bench_on<S: Store>(store: S) -> Bench<S, MemoryAudit, Acknowledged> {
    Bench {
        store,
        audit: MemoryAudit::new(),
        consumer: Acknowledged,
        metrics: Metrics::new(8),
        clock: Clock::manual(UtcMicros::from_nanos(STORED_AT_NANOS)),
        component: Arc::from("bench"),
        lane: lane(),
        options: LaneOptions {
            batch_wakes_max: BATCH,
            batch_bytes_max: 8 << 20,
            hold_backoff_min: Duration::from_millis(50),
            hold_backoff_max: Duration::from_secs(5),
            hold_backoff_jitter: JITTER,
            store_away_give_up: Duration::from_secs(30),
            ack_wait: Duration::from_secs(12),
            pin_timeout: Duration::from_secs(5),
            ceilings: Some(ceilings()),
        },
        shadows: Shadows::default(),
        tracer: Tracer::off(),
        holding: tokio::sync::watch::Sender::new(None),
        queue: wakegate::queue::work::Work::default(),
    }
}

fn lane() -> LaneKey {
    LaneKey {
        stream: Arc::from("WAKES"),
        stream_created_at: UtcMicros::from_nanos(STORED_AT_NANOS),
        lane: 3,
    }
}

fn settled<S: Store>(
    runtime: &Runtime,
    bench: &Bench<S, MemoryAudit, Acknowledged>,
    batch: Vec<Arc<Delivery>>,
) -> LaneCursor {
    let end = runtime.block_on(async {
        let cursor = bench.store.lane_cursor(&bench.lane).await.expect("nothing fails in memory");
        bench.work(cursor, batch).await
    });
    match end {
        BatchEnd::Settled { cursor } => cursor,
        end => panic!("the batch ended as {end:?}"),
    }
}

/// A consumer whose server takes everything at once.
#[derive(Debug, Clone)]
struct Acknowledged;

/// Delivers nothing: batches are handed over.
struct NoFeed;

impl LaneFeed for NoFeed {
    async fn next(&mut self) -> Result<Delivery, BrokerError> {
        std::future::pending().await
    }
}

impl LaneConsumer for Acknowledged {
    type Feed = NoFeed;

    async fn open(&self) -> Result<NoFeed, BrokerError> {
        Ok(NoFeed)
    }

    async fn info(&self) -> Result<LaneInfo, BrokerError> {
        Ok(LaneInfo::default())
    }

    async fn stream(&self) -> Result<StreamView, BrokerError> {
        let created = UtcMicros::from_micros(0);
        Ok(StreamView { created, first_sequence: 1, last_sequence: 0, removed_amid: 0 })
    }

    async fn next_after(&self, _: u64) -> Result<Option<u64>, BrokerError> {
        Ok(None)
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
