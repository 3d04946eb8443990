//! Wakes and batches to try a store with.

use std::sync::Arc;
use std::time::Duration;

use wakegate::admission::GateName;
use wakegate::store::{
    BatchRecord, LaneCursor, LaneKey, MergedRun, MergedWake, NewKey, NewRun, RefusedWake, Store,
};
use wakegate::wake::{
    AgentId, IdempotencyKey, KeylessCause, Occurrence, OrganizationId, Payload, Producer,
    ProjectId, Reason, RunId, TaskId, UtcMicros, Wake, WakeId,
};

/// The instant that tests count from.
pub const T0: UtcMicros = UtcMicros::from_micros(1_793_534_400_000_000);
/// Gates that read.
pub const READS: [GateName; 7] = [
    GateName::Identity,
    GateName::AgentStatus,
    GateName::Pause,
    GateName::Duplicate,
    GateName::Coalesce,
    GateName::Allowance,
    GateName::Capacity,
];
pub const MICRO: Duration = Duration::from_micros(1);

pub fn organization(name: &str) -> OrganizationId {
    OrganizationId::parse(name).unwrap()
}

pub fn agent(name: &str) -> AgentId {
    AgentId::parse(name).unwrap()
}

pub fn task(name: &str) -> TaskId {
    TaskId::parse(name).unwrap()
}

pub fn key(name: &str) -> IdempotencyKey {
    IdempotencyKey::parse(name).unwrap()
}

pub fn id(number: u64) -> WakeId {
    WakeId::from(uuid::Uuid::from_u128(u128::from(number)))
}

/// The payload of an agent's assignment of a task.
pub fn by_agent(task: &str) -> Payload {
    payload(&format!(r#"{{"task_id":"{task}","actor_type":"agent","actor_id":"ann"}}"#))
}

pub fn payload(text: &str) -> Payload {
    Payload::read(text).unwrap()
}

/// Wake `number`: an agent of `acme` assigns task `t` to `builder`, keyless, at [`T0`].
pub fn wake(number: u64) -> Wake {
    Wake {
        id: id(number),
        sequence: number,
        requested_at: T0,
        producer: Producer::parse("task_mutation").unwrap(),
        organization_id: organization("acme"),
        project_id: Some(ProjectId::parse("p").unwrap()),
        agent_profile_id: agent("builder"),
        reason: Reason::parse("task_assigned").unwrap(),
        occurrence: Occurrence::Keyless(KeylessCause::ByDesign),
        payload: by_agent("t"),
        traceparent: Some(Arc::from("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")),
        body_bytes: 300,
    }
}

pub fn keyed(number: u64, name: &str) -> Wake {
    Wake { occurrence: Occurrence::Keyed(key(name)), ..wake(number) }
}

pub fn at(number: u64, requested_at: UtcMicros) -> Wake {
    Wake { requested_at, ..wake(number) }
}

pub fn run(wake: Wake) -> NewRun {
    let payload = wake.payload.clone();
    let decided_at = wake.requested_at + MICRO;
    NewRun {
        wake: Arc::new(wake),
        payload,
        coalesced_count: 1,
        degraded: None,
        decided_at,
        expires_at: None,
    }
}

pub fn key_of(wake: &Wake, run_id: RunId) -> Option<NewKey> {
    Some(NewKey {
        organization_id: wake.organization_id.clone(),
        idempotency_key: wake.occurrence.key()?.clone(),
        run_id,
        requested_at: wake.requested_at,
    })
}

pub fn merged(wake: Wake, run_id: RunId) -> MergedWake {
    let decided_at = wake.requested_at + MICRO;
    MergedWake { wake: Arc::new(wake), run_id, decided_at }
}

pub fn refused(wake: Wake) -> RefusedWake {
    let record = format!(r#"{{"wake_id":"{}","é":"\u0000"}}"#, wake.id);
    RefusedWake { wake: Arc::new(wake), reason: "agent_paused", record }
}

pub fn lane(number: u32) -> LaneKey {
    LaneKey { stream: Arc::from("WAKES"), stream_created_at: T0, lane: number }
}

/// A lane at work: batches on it move its cursor.
pub struct Lane {
    pub key: LaneKey,
    pub at: LaneCursor,
}

impl Lane {
    pub async fn take<S: Store>(store: &S, number: u32) -> Self {
        let key = lane(number);
        let at = store.lane_cursor(&key).await.unwrap();
        Self { key, at }
    }

    /// A batch of nothing, one sequence further.
    pub fn batch(&self) -> BatchRecord {
        let to = LaneCursor {
            decided_sequence: self.at.decided_sequence + 1,
            decided_instant: T0,
            ..self.at
        };
        BatchRecord::new(&self.key, self.at, to)
    }

    /// Admits wakes, with their keys, and moves on.
    pub async fn admit<S: Store>(&mut self, store: &S, wakes: impl IntoIterator<Item = Wake>) {
        let mut batch = self.batch();
        for wake in wakes {
            batch.keys.extend(key_of(&wake, wake.id));
            batch.covers.push(wake.id);
            batch.runs.push(run(wake));
        }
        self.record(store, batch).await;
    }

    /// Merges a wake into a run, with its key where `takes_key`, and moves on.
    pub async fn merge<S: Store>(&mut self, store: &S, wake: Wake, run_id: RunId, takes_key: bool) {
        let mut batch = self.batch();
        batch.keys.extend(key_of(&wake, run_id).filter(|_| takes_key));
        batch.merges.push(MergedRun { run_id, payload: wake.payload.clone(), joined: 1 });
        batch.merged_wakes.push(merged(wake, run_id));
        self.record(store, batch).await;
    }

    pub async fn record<S: Store>(&mut self, store: &S, batch: BatchRecord) {
        let recorded = store.record(&batch).await.unwrap();
        assert_eq!(recorded.covers(), batch.covers);
        self.at = batch.to;
    }
}
