//! What the stream alone can do: publishing, and a consumer that does nothing but acknowledge.

use std::collections::VecDeque;
use std::future::IntoFuture as _;
use std::path::Path;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::{self, Context};
use futures_util::StreamExt as _;
use tempfile::TempDir;

use crate::nats::{JetStream, Nats};
use crate::workloads::Event;
use crate::{Result, eventually, worker};

/// Publishes that wait for their PubAck at once.
const PIPELINED: usize = 1_024;
/// Messages of one pull.
pub(crate) const PULL: usize = 500;
/// A consumer's messages that wait for their acknowledgement: room for one pull more.
const UNACKNOWLEDGED_MAX: i64 = 2 * 500;
/// A busy disk may keep the server waiting.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const STREAM: &str = "WAKES";
const AUDIT_STREAM: &str = "WAKE_AUDIT";
/// Messages that the audit stream keeps of one subject, hence at least of all.
const AUDIT_KEPT_MIN: u64 = 10_000;

/// A nats-server of its own, with the project's streams.
pub(crate) struct Stream {
    pub(crate) context: Context,
    pub(crate) server: Nats,
    scratch: TempDir,
}

impl Stream {
    /// Starts a server and lets `wakegate streams apply` declare the streams.
    pub(crate) async fn start() -> Result<Self> {
        let scratch = tempfile::Builder::new().prefix("wakegate-bench-").tempdir()?;
        let pid_file = scratch.path().join("nats.pid");
        let extra = format!("pid_file: \"{}\"", pid_file.display());
        let server = Nats::start_with(JetStream::On, &extra).await;
        worker::apply_streams(scratch.path(), &server.url())?;
        let mut context = jetstream::new(server.client().await);
        context.set_timeout(ANSWER_WITHIN);
        Ok(Self { context, server, scratch })
    }

    /// A directory for this server's lifetime.
    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// The server's version.
    pub(crate) fn version(&self) -> String {
        self.context.client().server_info().version
    }

    /// Process id of the server.
    pub(crate) fn pid(&self) -> Result<u32> {
        let file = std::fs::read_to_string(self.scratch.path().join("nats.pid"))?;
        Ok(file.trim().parse()?)
    }

    /// Publishes and waits for every PubAck, many at once. The time that took.
    pub(crate) async fn publish(&self, events: &[Event]) -> Result<Duration> {
        self.publish_by(events, PIPELINED).await
    }

    /// Publishes, with so many not yet acknowledged.
    pub(crate) async fn publish_by(
        &self,
        events: &[Event],
        outstanding: usize,
    ) -> Result<Duration> {
        let started = Instant::now();
        let mut waiting = VecDeque::with_capacity(outstanding);
        for event in events {
            if waiting.len() == outstanding
                && let Some(first) = waiting.pop_front()
            {
                acknowledged(first).await?;
            }
            let mut headers = HeaderMap::new();
            headers.insert("Nats-Msg-Id", event.message_id.as_str());
            let (subject, body) = (event.subject.clone(), event.body.clone());
            waiting.push_back(self.context.publish_with_headers(subject, headers, body).await?);
        }
        for ack in waiting {
            acknowledged(ack).await?;
        }
        Ok(started.elapsed())
    }

    /// Waits until each of these consumers has nothing pending and nothing unacknowledged.
    pub(crate) async fn settled(&self, consumers: &[String]) -> Result<()> {
        eventually("every acknowledgement", Duration::from_mins(1), async || {
            for name in consumers {
                let consumer: PullConsumer =
                    self.context.get_consumer_from_stream(name, STREAM).await?;
                let info = consumer.cached_info();
                if info.num_pending > 0 || info.num_ack_pending > 0 {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
        .await
    }

    /// What a message of the stream takes on its disk.
    pub(crate) async fn bytes_per_message(&self) -> Result<f64> {
        let state = self.context.get_stream(STREAM).await?.get_info().await?.state;
        Ok(state.bytes as f64 / state.messages as f64)
    }

    /// Checks that so many refusals were published for operators.
    pub(crate) async fn expect_audited(&self, refused: u64) -> Result<()> {
        let found = self.context.get_stream(AUDIT_STREAM).await?.get_info().await?.state.messages;
        // Each subject keeps a bounded number.
        let kept = refused.min(AUDIT_KEPT_MIN);
        if found >= kept && found <= refused {
            return Ok(());
        }
        Err(format!("{AUDIT_STREAM} holds {found} messages of {refused}").into())
    }

    /// A consumer of the whole stream.
    pub(crate) async fn consumer(&self, name: &str) -> Result<PullConsumer> {
        let stream = self.context.get_stream(STREAM).await?;
        let config = pull::Config {
            durable_name: Some(name.to_owned()),
            ack_policy: AckPolicy::Explicit,
            max_ack_pending: UNACKNOWLEDGED_MAX,
            ..pull::Config::default()
        };
        Ok(stream.create_consumer(config).await?)
    }
}

/// Waits until the stream has it, for the first time.
pub(crate) async fn acknowledged(ack: jetstream::context::PublishAckFuture) -> Result<()> {
    let ack = ack.into_future().await?;
    if ack.duplicate { Err("the stream calls a new message a duplicate".into()) } else { Ok(()) }
}

/// Pulls and acknowledges so many messages. The time from the first to the server's knowing the
/// last acknowledgement.
pub(crate) async fn consume(stream: &Stream, count: usize) -> Result<Duration> {
    let consumer = stream.consumer("noop").await?;
    let mut messages = consumer.stream().max_messages_per_batch(PULL).messages().await?;
    let mut started = None;
    for _ in 0..count {
        let message = messages.next().await.ok_or("the consumer ended")??;
        started.get_or_insert_with(Instant::now);
        message.ack().await?;
    }
    stream.settled(&["noop".to_owned()]).await?;
    Ok(started.ok_or("nothing to consume")?.elapsed())
}
