//! A lane without a broker: events in, outcomes out, through the very code that works a batch, on
//! any store, at instants that the test chooses.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;
use wakegate::admission::Shadows;
use wakegate::audit::memory::MemoryAudit;
use wakegate::audit::{AckPermit, AuditEvent};
use wakegate::clock::Clock;
use wakegate::config::Config;
use wakegate::intake::{
    BrokerError, Delivery, LaneConsumer, LaneFeed, LaneInfo, StreamView, Verdict,
};
use wakegate::lane::LaneOptions;
use wakegate::lane::hold::JITTER;
use wakegate::lane::process::{BatchEnd, Bench};
use wakegate::metrics::Metrics;
use wakegate::store::{LaneCursor, LaneKey, Store};
use wakegate::traces::Tracer;
use wakegate::wake::UtcMicros;
use wakegate::wake::decode::Message;
use wakegate::wake::token::token;

/// An instant to count from, in microseconds since the epoch: 2026-11-01T12:00:00Z.
pub const T0: i64 = 1_793_534_400_000_000;
/// One second in microseconds.
pub const SECOND: i64 = 1_000_000;
/// One minute in microseconds.
pub const MINUTE: i64 = 60 * SECOND;

/// An event as a test publishes it.
#[derive(Debug, Clone)]
pub struct Published {
    pub producer: String,
    pub organization: String,
    pub task: String,
    pub body: Bytes,
    /// When the stream stored it, in microseconds since the epoch.
    pub at: i64,
    pub traceparent: Option<String>,
}

/// A mutation of `task` at `at` by `actor` (`""` is a person) that assigns `agent`.
pub fn mutation(at: i64, task: &str, actor: &str, agent: &str, generation: Value) -> Published {
    let body = json!({
        "type": "task.mutated.v1",
        "organization_id": "acme",
        "task_id": task,
        "acting_agent_id": actor,
        "new_assignee_agent_profile_id": agent,
        "assignment_generation": generation,
    });
    Published::of("task_mutation", "acme", task, &body, at)
}

/// A wake as such: `task_assigned` for `agent`, by its payload, keyed or not.
pub fn requested(at: i64, agent: &str, payload: Value, key: Option<&str>) -> Published {
    let task = payload.get("task_id").and_then(Value::as_str).unwrap_or("").to_owned();
    let body = json!({
        "type": "wake.requested.v1",
        "organization_id": "acme",
        "reason": "task_assigned",
        "agent_profile_id": agent,
        "payload": payload,
        "idempotency_key": key,
    });
    Published::of("task_lifecycle", "acme", &task, &body, at)
}

impl Published {
    /// An event whose subject names `organization` and `task`.
    pub fn of(producer: &str, organization: &str, task: &str, body: &Value, at: i64) -> Self {
        Self {
            producer: producer.to_owned(),
            organization: organization.to_owned(),
            task: task.to_owned(),
            body: Bytes::from(body.to_string()),
            at,
            traceparent: None,
        }
    }

    /// The same event with fields of its body set, or removed where null.
    #[must_use]
    pub fn with(mut self, fields: Value) -> Self {
        let mut body: Value = serde_json::from_slice(&self.body).unwrap();
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
            if name == "organization_id" {
                value.as_str().unwrap_or("").clone_into(&mut self.organization);
            }
        }
        self.body = Bytes::from(body.to_string());
        self
    }

    /// The same event from another producer.
    #[must_use]
    pub fn by_producer(mut self, producer: &str) -> Self {
        producer.clone_into(&mut self.producer);
        self
    }

    /// The same event at another instant.
    #[must_use]
    pub fn at(mut self, at: i64) -> Self {
        self.at = at;
        self
    }

    fn subject(&self) -> String {
        format!("wakes.0.{}.{}.{}", self.producer, token(&self.organization), token(&self.task))
    }
}

/// What a lane acknowledged and told.
#[derive(Debug, Clone, Default)]
pub struct Acknowledged {
    settled: Arc<Mutex<Vec<(u64, Verdict)>>>,
    told: Arc<Mutex<HashMap<String, Value>>>,
}

/// A feed on which nothing arrives: the world hands deliveries to the bench itself.
pub struct Silence;

impl LaneFeed for Silence {
    async fn next(&mut self) -> Result<Delivery, BrokerError> {
        std::future::pending().await
    }
}

impl LaneConsumer for Acknowledged {
    type Feed = Silence;

    async fn open(&self) -> Result<Silence, BrokerError> {
        Ok(Silence)
    }

    async fn info(&self) -> Result<LaneInfo, BrokerError> {
        Ok(LaneInfo::default())
    }

    async fn stream(&self) -> Result<StreamView, BrokerError> {
        let created = UtcMicros::from_micros(T0 - 1_000 * MINUTE);
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
        delivery: &Delivery,
        verdict: Verdict,
        permit: AckPermit<'_>,
    ) -> Result<(), BrokerError> {
        assert_eq!(permit.wake_id(), delivery.wake_id(), "a permit is for one wake");
        self.settled.lock().unwrap().push((delivery.message.sequence, verdict));
        Ok(())
    }

    async fn tell(&self, subject: &str, record: String) {
        let record = serde_json::from_str(&record).unwrap();
        self.told.lock().unwrap().insert(subject.to_owned(), record);
    }

    async fn flush(&self) -> Result<(), BrokerError> {
        Ok(())
    }

    async fn unpin(&self) -> Result<(), BrokerError> {
        Ok(())
    }
}

/// A lane on a store.
pub struct World<S> {
    pub bench: Bench<S, MemoryAudit, Acknowledged>,
    pub cursor: LaneCursor,
    next_sequence: u64,
    next_reply: u64,
}

impl<S: Store> World<S> {
    /// Lane 0 of a new stream.
    pub async fn new(store: S) -> Self {
        Self::on_lane(store, 0).await
    }

    /// Another lane of the same stream.
    pub async fn on_lane(store: S, lane: u32) -> Self {
        let lane = LaneKey {
            stream: Arc::from("WAKES"),
            stream_created_at: UtcMicros::from_micros(T0 - 1_000 * MINUTE),
            lane,
        };
        let cursor = store.lane_cursor(&lane).await.unwrap();
        let bench = Bench {
            store,
            audit: MemoryAudit::new(),
            consumer: Acknowledged::default(),
            metrics: Metrics::new(8),
            clock: Clock::manual(UtcMicros::from_micros(T0)),
            options: LaneOptions {
                batch_wakes_max: 500,
                batch_bytes_max: 8 << 20,
                hold_backoff_min: Duration::from_millis(1),
                hold_backoff_max: Duration::from_millis(20),
                hold_backoff_jitter: JITTER,
                store_away_give_up: Duration::from_secs(20),
                ack_wait: Duration::from_secs(12),
                pin_timeout: Duration::from_secs(5),
                ceilings: Some(Config::default().limits.ceilings),
            },
            shadows: Shadows::default(),
            tracer: Tracer::off(),
            holding: watch::Sender::new(None),
            queue: wakegate::queue::work::Work::default(),
            component: Arc::from("worker-of-a-test"),
            lane,
        };
        // Sequences of different lanes of one stream never meet.
        let next_sequence = 1 + 1_000_000 * u64::from(bench.lane.lane);
        Self { bench, cursor, next_sequence, next_reply: 1 }
    }

    /// Deliveries as the stream would make of these events, in this order.
    pub fn stored(&mut self, events: &[Published]) -> Vec<Delivery> {
        events.iter().map(|event| self.store_one(event)).collect()
    }

    fn store_one(&mut self, event: &Published) -> Delivery {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let stored_at_nanos = i128::from(event.at) * 1_000;
        Delivery {
            consumer_sequence: sequence,
            deliveries: 1,
            pending: 0,
            pin_id: Some(Arc::from("pin")),
            reply: Arc::from(format!("$JS.ACK.{sequence}")),
            message: Message {
                stream: Arc::from("WAKES"),
                sequence,
                stored_at_nanos,
                requested_at: UtcMicros::from_nanos(stored_at_nanos),
                subject: Arc::from(event.subject()),
                body: event.body.clone(),
                traceparent: event.traceparent.as_deref().map(Arc::from),
                tracestate: None,
                outcome_to: None,
            },
        }
    }

    /// Works deliveries as one batch and returns the outcome record of each.
    pub async fn work(&mut self, deliveries: &[Delivery]) -> Vec<Value> {
        let mut subjects = Vec::new();
        let batch = deliveries
            .iter()
            .cloned()
            .map(|mut delivery| {
                let subject = format!("_INBOX.world.{}", self.next_reply);
                self.next_reply += 1;
                delivery.message.outcome_to = Some(Arc::from(subject.as_str()));
                subjects.push(subject);
                Arc::new(delivery)
            })
            .collect();
        match self.bench.work(self.cursor, batch).await {
            BatchEnd::Settled { cursor } => self.cursor = cursor,
            other => panic!("the batch was not settled: {other:?}"),
        }
        let mut told = self.bench.consumer.told.lock().unwrap();
        subjects
            .iter()
            .map(|subject| told.remove(subject).expect("every event has an outcome"))
            .collect()
    }

    /// Publishes events and works them as one batch.
    pub async fn batch(&mut self, events: &[Published]) -> Vec<Value> {
        let deliveries = self.stored(events);
        self.work(&deliveries).await
    }

    /// Publishes one event and works it alone.
    pub async fn send(&mut self, event: Published) -> Value {
        self.batch(&[event]).await.remove(0)
    }

    /// Publishes events and works each alone; returns `outcome` or, where there is one,
    /// `outcome:reason`.
    pub async fn outcomes(&mut self, events: &[Published]) -> Vec<String> {
        let mut outcomes = Vec::new();
        for event in events {
            outcomes.push(brief(&self.send(event.clone()).await));
        }
        outcomes
    }

    /// Stream sequences acknowledged, in order.
    pub fn acknowledged(&self) -> Vec<(u64, Verdict)> {
        self.bench.consumer.settled.lock().unwrap().clone()
    }

    /// Audit events published, repeats dropped.
    pub fn audited(&self) -> Vec<AuditEvent> {
        self.bench.audit.events()
    }

    /// The value of one metric line, such as `wakegate_refusals_total{reason="agent_paused"}`.
    pub fn metric(&self, series_name: &str) -> u64 {
        series(&self.bench.metrics, series_name)
    }

    /// Every counter of the allowance, by reason.
    pub fn allowance_counters(&self) -> [u64; 3] {
        ["allowance_exhausted", "count_read_failed", "task_unattributed"].map(|reason| {
            self.metric(&format!("wakegate_assignment_allowance_total{{reason=\"{reason}\"}}"))
        })
    }
}

/// `outcome`, `outcome:reason`, or `queued/degraded_reason`.
pub fn brief(record: &Value) -> String {
    let text = |name: &str| record.get(name).and_then(Value::as_str);
    let outcome = text("outcome").expect("every record has an outcome");
    match (text("reason"), text("degraded_reason")) {
        (Some(reason), _) => format!("{outcome}:{reason}"),
        (None, Some(degraded)) => format!("{outcome}/{degraded}"),
        (None, None) => outcome.to_owned(),
    }
}

/// The value of one series of a registry.
pub fn series(metrics: &Metrics, name: &str) -> u64 {
    let text = metrics.render();
    let line = text
        .lines()
        .find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')))
        .unwrap_or_else(|| panic!("no series {name} in\n{text}"));
    line.rsplit(' ').next().unwrap().parse().expect("a counter")
}
