//! What every audit log promises, and what the one on JetStream promises beyond.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::future::{Future, Ready, ready};
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::Context;
use serde_json::{Value, json};
use wakegate::audit::{AuditClass, AuditError, AuditEvent, AuditLog, JetStreamAudit, MemoryAudit};
use wakegate::broker::{self, BrokerOptions, TlsFiles};
use wakegate::store::memory::MemoryStore;
use wakegate::store::{BatchRecord, LaneCursor, LaneKey, Recorded, Store as _};
use wakegate::topology::{Topology, WAKE_AUDIT};
use wakegate::wake::{UtcMicros, WakeId};

use crate::harness::nats::Nats;
use crate::simulation::audit::SimAudit;
use crate::simulation::fakes;
use crate::simulation::plan::Weather;
use crate::simulation::world::World as SimWorld;

/// Long enough for any answer, short enough to wait for an answer that cannot come.
const ANSWER_WITHIN: Duration = Duration::from_millis(800);
const RECOVERED_WITHIN: Duration = Duration::from_secs(20);

/// An event as it lies in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stored {
    subject: String,
    message_id: String,
    record: String,
}

/// An audit log, and what a test does to it behind its back.
trait Log {
    type Audit: AuditLog;
    fn audit(&self) -> Self::Audit;
    fn stored(&self) -> impl Future<Output = Vec<Stored>>;
    fn break_down(&mut self) -> impl Future<Output = ()>;
    fn recover(&mut self) -> impl Future<Output = ()>;
}

struct InMemory {
    audit: MemoryAudit,
}

impl InMemory {
    fn start() -> Ready<Self> {
        ready(Self { audit: MemoryAudit::new() })
    }
}

impl Log for InMemory {
    type Audit = MemoryAudit;

    fn audit(&self) -> MemoryAudit {
        self.audit.clone()
    }

    async fn stored(&self) -> Vec<Stored> {
        self.audit.events().iter().map(stored_form).collect()
    }

    async fn break_down(&mut self) {
        self.audit.fail("switched off");
    }

    async fn recover(&mut self) {
        self.audit.recover();
    }
}

struct InSimulation {
    audit: SimAudit,
    world: SimWorld,
}

impl InSimulation {
    fn start() -> Ready<Self> {
        let (audit, world) = fakes::audit();
        ready(Self { audit, world })
    }
}

impl Log for InSimulation {
    type Audit = SimAudit;

    fn audit(&self) -> SimAudit {
        self.audit.clone()
    }

    async fn stored(&self) -> Vec<Stored> {
        self.world.with(|inside| inside.oracle.audit_events().map(stored_form).collect())
    }

    async fn break_down(&mut self) {
        self.world.with(|inside| inside.forced = Some(Weather::AuditAway));
    }

    async fn recover(&mut self) {
        self.world.with(|inside| inside.forced = None);
    }
}

struct OnServer {
    nats: Nats,
    context: Context,
    audit: JetStreamAudit,
}

impl OnServer {
    async fn start() -> Self {
        let nats = Nats::start().await;
        let options = BrokerOptions {
            url: nats.url(),
            credentials_file: None,
            tls: TlsFiles::default(),
            inbox_prefix: "_INBOX".to_owned(),
            request_timeout: ANSWER_WITHIN,
            name: "audit-contract".to_owned(),
        };
        let context = broker::connect_once(&options).await.unwrap().jetstream();
        Topology::load(None).unwrap().apply(&context, 500).await.unwrap();
        let audit = JetStreamAudit::new(context.clone(), 2 * ANSWER_WITHIN);
        Self { nats, context, audit }
    }

    async fn update(&self, changes: &[(&str, Value)]) {
        let info: Value = self.ask(&format!("STREAM.INFO.{WAKE_AUDIT}"), &json!({})).await;
        let mut config = info["config"].clone();
        for (field, value) in changes {
            config[*field] = value.clone();
        }
        self.ask(&format!("STREAM.UPDATE.{WAKE_AUDIT}"), &config).await;
    }

    async fn ask(&self, subject: &str, body: &Value) -> Value {
        let answer: Value = self.context.request(subject.to_owned(), body).await.unwrap();
        assert_eq!(answer.get("error"), None, "{subject}");
        answer
    }
}

impl Log for OnServer {
    type Audit = JetStreamAudit;

    fn audit(&self) -> JetStreamAudit {
        self.audit.clone()
    }

    async fn stored(&self) -> Vec<Stored> {
        let mut stream = self.context.get_stream(WAKE_AUDIT).await.unwrap();
        let last = stream.info().await.unwrap().state.last_sequence;
        let mut stored = Vec::new();
        for sequence in 1..=last {
            let message = stream.get_raw_message(sequence).await.unwrap();
            stored.push(Stored {
                subject: message.subject.to_string(),
                message_id: message.headers.get("Nats-Msg-Id").unwrap().to_string(),
                record: String::from_utf8(message.payload.to_vec()).unwrap(),
            });
        }
        stored
    }

    async fn break_down(&mut self) {
        self.nats.kill();
    }

    async fn recover(&mut self) {
        self.nats.start_again().await;
    }
}

macro_rules! contract {
    ($($promise:ident),+ $(,)?) => {
        mod in_memory {
            $(#[tokio::test]
            async fn $promise() {
                super::$promise(super::InMemory::start().await).await;
            })+
        }
        mod in_simulation {
            $(#[tokio::test]
            async fn $promise() {
                super::$promise(super::InSimulation::start().await).await;
            })+
        }
        mod on_a_server {
            $(#[tokio::test]
            async fn $promise() {
                super::$promise(super::OnServer::start().await).await;
            })+
        }
    };
}

contract!(
    an_event_published_twice_is_stored_once,
    the_proof_passes_through,
    a_failure_gives_the_proof_back_and_claims_nothing,
    five_hundred_events_are_stored_together,
    no_events_need_nothing_stored,
);

async fn an_event_published_twice_is_stored_once(log: impl Log) {
    let events = [
        event(1, AuditClass::Refused, "allowance_exhausted"),
        event(1, AuditClass::Degraded, "count_read_failed"),
        event(2, AuditClass::Rejected, "not_json"),
    ];
    for _ in 0..2 {
        log.audit().publish(recorded(&[1, 2]).await, &events).await.unwrap();
    }
    log.audit().publish(recorded(&[2]).await, &events[2..]).await.unwrap();
    assert_eq!(sorted(log.stored().await), sorted(events.iter().map(stored_form)));
}

async fn the_proof_passes_through(log: impl Log) {
    let events = [event(7, AuditClass::Refused, "agent_paused")];
    let audited = log.audit().publish(recorded(&[6, 7, 8]).await, &events).await.unwrap();
    assert_eq!(audited.covers(), [wake_id(6), wake_id(7), wake_id(8)]);
}

async fn a_failure_gives_the_proof_back_and_claims_nothing(mut log: impl Log) {
    let events = [event(1, AuditClass::Refused, "platform_paused")];
    log.break_down().await;
    let (proof, error) = fails(&log, recorded(&[1, 2]).await, &events).await;
    assert_eq!(proof.covers(), [wake_id(1), wake_id(2)]);
    assert!(!error.error.is_empty());
    log.recover().await;
    let audited = until_published(&log, proof, &events).await;
    assert_eq!(audited, [wake_id(1), wake_id(2)]);
    assert_eq!(log.stored().await, [stored_form(&events[0])]);
}

async fn five_hundred_events_are_stored_together(log: impl Log) {
    let events: Vec<AuditEvent> =
        (0..500).map(|n| event(n, AuditClass::Refused, "allowance_exhausted")).collect();
    log.audit().publish(recorded(&[1]).await, &events).await.unwrap();
    assert_eq!(sorted(log.stored().await), sorted(events.iter().map(stored_form)));
}

async fn no_events_need_nothing_stored(mut log: impl Log) {
    log.break_down().await;
    let audited = log.audit().publish(recorded(&[1]).await, &[]).await;
    assert_eq!(audited.unwrap().covers(), [wake_id(1)], "nothing is to be published");
}

#[tokio::test]
async fn a_stream_that_is_full_holds_and_says_so() {
    let log = OnServer::start().await;
    let events = [1, 2].map(|n| event(n, AuditClass::Refused, "agent_stopped"));
    log.update(&[("discard", json!("new")), ("max_msgs", json!(1))]).await;
    let (proof, error) = fails(&log, recorded(&[1, 2]).await, &events).await;
    assert!(error.error.contains("the stream is full"), "{error}");
    log.update(&[("max_msgs", json!(-1)), ("discard", json!("old"))]).await;
    until_published(&log, proof, &events).await;
    assert_eq!(sorted(log.stored().await), sorted(events.iter().map(stored_form)));
}

#[tokio::test]
async fn a_stream_that_is_deleted_holds_and_says_what_to_run() {
    let log = OnServer::start().await;
    let events = [event(1, AuditClass::Refused, "agent_stopped")];
    log.ask(&format!("STREAM.DELETE.{WAKE_AUDIT}"), &json!({})).await;
    let (proof, error) = fails(&log, recorded(&[1]).await, &events).await;
    assert!(error.error.contains("run: wakegate streams apply"), "{error}");
    Topology::load(None).unwrap().apply(&log.context, 500).await.unwrap();
    until_published(&log, proof, &events).await;
    assert_eq!(log.stored().await, [stored_form(&events[0])]);
}

#[tokio::test]
async fn a_record_that_is_too_large_is_cut_and_costs_its_neighbours_nothing() {
    let log = OnServer::start().await;
    // Over the stream's `max_msg_size` (128 KiB), and over the server's `max_payload` (1 MiB).
    for (n, body_bytes) in [(10_u64, 150_000), (20, 1_200_000)] {
        let mut large = event(n, AuditClass::Rejected, "too_large");
        let mut record: Value = serde_json::from_str(&large.record).unwrap();
        record["body_bytes"] = json!(body_bytes);
        record["body_base64"] = json!("QUJD".repeat(body_bytes / 3));
        large.record = record.to_string();
        let next = event(n + 1, AuditClass::Rejected, "not_json");
        log.audit().publish(recorded(&[n]).await, &[large.clone(), next.clone()]).await.unwrap();

        let stored = log.stored().await;
        assert!(stored.contains(&stored_form(&next)));
        let cut = stored.iter().find(|event| event.message_id == large.message_id()).unwrap();
        let cut: Value = serde_json::from_str(&cut.record).unwrap();
        assert_eq!(cut["wake_id"], record["wake_id"]);
        assert_eq!(cut["body_bytes"], record["body_bytes"], "how long it was is still said");
        let body = cut["body_base64"].as_str().unwrap();
        assert!(body.len() >= 18_000 && body.len().is_multiple_of(4), "{} characters", body.len());
        assert!(record["body_base64"].as_str().unwrap().starts_with(body));
    }
}

#[tokio::test]
async fn a_record_that_is_too_large_without_any_body_still_names_its_wake() {
    let log = OnServer::start().await;
    log.update(&[("max_msg_size", json!(700))]).await;
    let mut large = event(1, AuditClass::Rejected, "invalid_field");
    large.record = json!({
        "wake_id": large.wake_id, "outcome": "rejected", "reason": "invalid_field",
        "fault": "f".repeat(2_000), "body_base64": "QUJD",
    })
    .to_string();
    log.audit().publish(recorded(&[1]).await, &[large.clone()]).await.unwrap();
    let stored = log.stored().await;
    let record: Value = serde_json::from_str(&stored[0].record).unwrap();
    let expected = json!({
        "wake_id": large.wake_id, "outcome": "rejected", "reason": "invalid_field",
    });
    assert_eq!(record, expected);
}

async fn fails(log: &impl Log, proof: Recorded, events: &[AuditEvent]) -> (Recorded, AuditError) {
    match log.audit().publish(proof, events).await {
        Err(failure) => failure,
        Ok(_) => panic!("published to a log that is down"),
    }
}

/// Publishes again as a held lane does, until it works, and says what is then proved.
async fn until_published(
    log: &impl Log,
    mut proof: Recorded,
    events: &[AuditEvent],
) -> Vec<WakeId> {
    let deadline = tokio::time::Instant::now() + RECOVERED_WITHIN;
    loop {
        match log.audit().publish(proof, events).await {
            Ok(audited) => return audited.covers().to_vec(),
            Err((returned, error)) => {
                assert!(tokio::time::Instant::now() < deadline, "no recovery: {error}");
                proof = returned;
            }
        }
    }
}

/// Only a store makes a proof.
async fn recorded(wakes: &[u64]) -> Recorded {
    let store = MemoryStore::new();
    let lane =
        LaneKey { stream: Arc::from("WAKES"), stream_created_at: UtcMicros::default(), lane: 0 };
    let from = store.lane_cursor(&lane).await.unwrap();
    let to = LaneCursor { decided_sequence: from.decided_sequence + 1, ..from };
    let batch = BatchRecord {
        covers: wakes.iter().map(|n| wake_id(*n)).collect(),
        ..BatchRecord::new(&lane, from, to)
    };
    store.record(&batch).await.unwrap()
}

fn wake_id(sequence: u64) -> WakeId {
    WakeId::derive("WAKES", sequence, 1_790_000_000_000_000_000 + i128::from(sequence))
}

fn event(sequence: u64, class: AuditClass, reason: &str) -> AuditEvent {
    let wake_id = wake_id(sequence);
    AuditEvent {
        wake_id,
        class,
        reason: reason.to_owned(),
        organization_token: wakegate::wake::token::token("acme * > ltd").into_owned(),
        record: json!({ "wake_id": wake_id, "outcome": class.as_str() }).to_string(),
    }
}

fn stored_form(event: &AuditEvent) -> Stored {
    let class = event.class.as_str();
    Stored {
        subject: format!("wake-audit.{class}.{}.acme=20=2A=20=3E=20ltd", event.reason),
        message_id: format!("{}.{class}.{}", event.wake_id, event.reason),
        record: event.record.clone(),
    }
}

fn sorted(stored: impl IntoIterator<Item = Stored>) -> Vec<Stored> {
    let mut stored: Vec<Stored> = stored.into_iter().collect();
    stored.sort_by(|a, b| a.message_id.cmp(&b.message_id));
    stored
}
