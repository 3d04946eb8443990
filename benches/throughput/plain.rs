//! The plain worker: what one writes first, and written well. Per event one transaction with three
//! reads and one write, prepared once and kept to the indices, the same gates in the same order,
//! and an acknowledgement once it is committed. Lanes are competing consumers of the whole stream,
//! each with a connection of its own.
//!
//! What it leaves out is what a batching, lane-owning worker adds: redeliveries by identity, audit,
//! and exactness under concurrency. With more than one lane it admits more than the allowance, and
//! its counts are not those of the workload.

mod postgres;
mod sqlite;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::PullConsumer;
use futures_util::StreamExt as _;
use serde::Deserialize;
use time::OffsetDateTime;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::Result;
use crate::database::{Connections, Database};
use crate::stream::{PULL, Stream};

/// The consumer that the lanes share.
const CONSUMER: &str = "plain";

/// A mutation, as the workloads publish it.
#[derive(Debug, Deserialize)]
struct Mutation {
    organization_id: String,
    project_id: String,
    task_id: String,
    acting_agent_id: String,
    new_assignee_agent_profile_id: String,
    assignment_generation: i64,
}

/// A wake as this worker sees it.
struct Wake {
    id: Uuid,
    mutation: Mutation,
    key: String,
    payload: String,
    at: OffsetDateTime,
}

/// What has been read before the write.
enum Verdict {
    Admit,
    Merge(Uuid),
    Seen,
    Refuse,
}

impl Wake {
    fn parse(message: &async_nats::jetstream::Message) -> Result<Self> {
        let mutation: Mutation = serde_json::from_slice(&message.payload)?;
        let info = message.info()?;
        let key = format!(
            "task_assigned:{}:{}:{}",
            mutation.task_id,
            mutation.new_assignee_agent_profile_id,
            mutation.assignment_generation
        );
        let payload = serde_json::json!({
            "reason": "task_assigned",
            "task_id": mutation.task_id,
            "organization_id": mutation.organization_id,
            "project_id": mutation.project_id,
            "actor_type": "agent",
            "actor_id": mutation.acting_agent_id,
        });
        let millis = u64::try_from(info.published.unix_timestamp_nanos() / 1_000_000)?;
        let mut random = [0; 10];
        random[2..].copy_from_slice(&info.stream_sequence.to_be_bytes());
        Ok(Self {
            id: uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid(),
            key,
            payload: payload.to_string(),
            at: info.published,
            mutation,
        })
    }
}

/// Works so many events off the stream. The time from the first to the server's knowing the last
/// acknowledgement.
pub(crate) async fn work(
    stream: &Stream,
    database: &Database,
    lanes: usize,
    count: usize,
) -> Result<Duration> {
    let consumer = stream.consumer(CONSUMER).await?;
    let left = Arc::new((AtomicUsize::new(count), Notify::new()));
    let started = Instant::now();
    let mut working = JoinSet::new();
    for _ in 0..lanes {
        let pull = (PULL / lanes).max(1);
        working.spawn(lane(consumer.clone(), database.connections(), Arc::clone(&left), pull));
    }
    while let Some(worked) = working.join_next().await {
        worked??;
    }
    stream.settled(&[CONSUMER.to_owned()]).await?;
    Ok(started.elapsed())
}

async fn lane(
    consumer: PullConsumer,
    database: Connections,
    left: Arc<(AtomicUsize, Notify)>,
    pull: usize,
) -> Result<()> {
    let mut messages = consumer.stream().max_messages_per_batch(pull).messages().await?;
    loop {
        let message = tokio::select! {
            message = messages.next() => message.ok_or("the consumer ended")??,
            () = left.1.notified() => {
                left.1.notify_one();
                return Ok(());
            }
        };
        let wake = Wake::parse(&message)?;
        match &database {
            Connections::Postgres(pool) => postgres::decide(pool, &wake).await?,
            Connections::Sqlite(pool) => sqlite::decide(pool, &wake).await?,
        }
        message.ack().await?;
        if left.0.fetch_sub(1, Ordering::Relaxed) == 1 {
            left.1.notify_one();
        }
    }
}
