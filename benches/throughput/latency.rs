//! How long a wake takes at a steady load: from the instant at which it was to be published to the
//! arrival of its outcome at whoever asked for it.
//!
//! The load does not wait for answers, and a late send counts from when it should have been sent,
//! so a stall of the worker is charged to every wake that it delays. The outcome is sent after the
//! commit, so the run was visible earlier than measured here; of every tenth this is checked in the
//! database on arrival.

use std::thread;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::PublishAckFuture;
use futures_util::StreamExt as _;
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::database::{Connections, Database};
use crate::stream::{Stream, acknowledged};
use crate::worker::Worker;
use crate::workloads::Event;
use crate::{Result, eventually};

/// Sent first, at the same rate, and not measured: connections, statements and caches are then as in a
/// running system, and what waited for them has been worked off.
const WARM_UP_SECONDS: u32 = 2;
/// Every so many-th arrival is looked up in the database.
const LOOK_UP_EVERY: usize = 10;
const ARRIVE_WITHIN: Duration = Duration::from_secs(30);

/// Milliseconds that so many percent of the wakes stayed below.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
    /// Percent and milliseconds, for a plot.
    pub(crate) curve: Vec<(f64, f64)>,
    /// The sender's own lateness, which is part of every figure.
    pub(crate) sent_late_p99: f64,
}

const CURVE: [f64; 12] = [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9];

/// Events that come before those that are measured.
pub(crate) fn warm_up(per_second: u32) -> usize {
    (per_second * WARM_UP_SECONDS) as usize
}

impl Latency {
    pub(crate) fn of(mut took: Vec<Duration>, mut late: Vec<Duration>) -> Self {
        took.sort();
        late.sort();
        Self {
            p50: percentile(&took, 50.0),
            p95: percentile(&took, 95.0),
            p99: percentile(&took, 99.0),
            max: percentile(&took, 100.0),
            curve: CURVE.iter().map(|&percent| (percent, percentile(&took, percent))).collect(),
            sent_late_p99: percentile(&late, 99.0),
        }
    }
}

/// Milliseconds, of durations in order.
fn percentile(sorted: &[Duration], percent: f64) -> f64 {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    let index = rank.clamp(1, sorted.len().max(1)) - 1;
    sorted.get(index).map_or(0.0, |took| took.as_secs_f64() * 1e3)
}

/// Of the worker on this database.
pub(crate) async fn of_worker(
    stream: &Stream,
    database: &Database,
    events: Vec<Event>,
    per_second: u32,
) -> Result<Latency> {
    let mut worker = Worker::start(stream, database.url(), &[])?;
    let up = Duration::from_secs(30);
    eventually("the worker to serve", up, async || worker.metrics().await).await?;

    let inbox = format!("_INBOX.bench-{per_second}");
    let client = stream.server.client().await;
    let mut answers = client.subscribe(format!("{inbox}.*")).await?;
    client.flush().await?;
    let (looks, to_look_up) = mpsc::unbounded_channel();
    let mut checking = JoinSet::new();
    checking.spawn(look_up(database.connections(), to_look_up));
    let count = events.len();
    let sender = Sender { context: stream.context.clone(), inbox: Some(inbox), per_second };
    let sending = sender.start(events)?;
    let mut arrived = vec![None; count];
    for _ in 0..count {
        let answer = tokio::time::timeout(ARRIVE_WITHIN, answers.next()).await?;
        let now = Instant::now();
        let answer = answer.ok_or("the subscription ended")?;
        let at: usize = answer.subject.rsplit('.').next().unwrap_or_default().parse()?;
        arrived[at] = Some(now);
        if at.is_multiple_of(LOOK_UP_EVERY) {
            looks.send(answer.payload)?;
        }
    }
    drop(looks);
    while let Some(checked) = checking.join_next().await {
        checked??;
    }
    worker.end().await?;
    sending.finish(&arrived).await
}

/// Of a consumer that only receives and acknowledges.
pub(crate) async fn of_consumer(
    stream: &Stream,
    events: Vec<Event>,
    per_second: u32,
) -> Result<Latency> {
    let consumer = stream.consumer("latency").await?;
    let mut messages = consumer.stream().messages().await?;
    let count = events.len();
    let sender = Sender { context: stream.context.clone(), inbox: None, per_second };
    let sending = sender.start(events)?;
    let mut arrived = vec![None; count];
    for _ in 0..count {
        let message = tokio::time::timeout(ARRIVE_WITHIN, messages.next()).await?;
        let now = Instant::now();
        let message = message.ok_or("the consumer ended")??;
        arrived[usize::try_from(message.info()?.stream_sequence)? - 1] = Some(now);
        message.ack().await?;
    }
    sending.finish(&arrived).await
}

/// Each run is there when its outcome is.
async fn look_up(
    connections: Connections,
    mut answers: mpsc::UnboundedReceiver<bytes::Bytes>,
) -> Result<()> {
    while let Some(answer) = answers.recv().await {
        let record: serde_json::Value = serde_json::from_slice(&answer)?;
        if record["outcome"] != "queued" {
            return Err(format!("an event of a new task was not queued: {record}").into());
        }
        let run = record["run_id"].as_str().ok_or("no run_id")?;
        let (postgres, sqlite) = (
            "SELECT count(*) FROM runs WHERE id = $1::uuid",
            "SELECT count(*) FROM runs WHERE id = $1",
        );
        let found: i64 = match &connections {
            Connections::Postgres(pool) => {
                let run: uuid::Uuid = run.parse()?;
                sqlx::query_scalar(postgres).bind(run).fetch_one(pool).await?
            }
            Connections::Sqlite(pool) => {
                sqlx::query_scalar(sqlite).bind(run).fetch_one(pool).await?
            }
        };
        if found != 1 {
            return Err(format!("run {run} was told of and is not there").into());
        }
    }
    Ok(())
}

struct Sender {
    context: Context,
    inbox: Option<String>,
    per_second: u32,
}

struct Sending {
    warm_up: usize,
    thread: thread::JoinHandle<Result<Vec<(Instant, Instant)>>>,
    acknowledging: JoinSet<Result<()>>,
}

impl Sender {
    /// Sends from a thread of its own: the runtime's timer is good to a millisecond only.
    fn start(self, events: Vec<Event>) -> Result<Sending> {
        let runtime = Handle::current();
        let per_second = self.per_second;
        let (sent, acks) = mpsc::unbounded_channel();
        let mut acknowledging = JoinSet::new();
        acknowledging.spawn(all_acknowledged(acks));
        let thread = thread::Builder::new()
            .name("sender".to_owned())
            .spawn(move || self.send(&runtime, &events, &sent))?;
        Ok(Sending { warm_up: warm_up(per_second), thread, acknowledging })
    }

    /// When each was to be sent, and was.
    fn send(
        self,
        runtime: &Handle,
        events: &[Event],
        acks: &mpsc::UnboundedSender<PublishAckFuture>,
    ) -> Result<Vec<(Instant, Instant)>> {
        let gap = Duration::from_secs(1) / self.per_second;
        let started = Instant::now();
        let mut times = Vec::with_capacity(events.len());
        for (at, event) in events.iter().enumerate() {
            let due = started + gap * u32::try_from(at)?;
            while let Some(early) = due.checked_duration_since(Instant::now()) {
                if early.is_zero() {
                    break;
                }
                thread::park_timeout(early);
            }
            times.push((due, Instant::now()));
            let mut headers = HeaderMap::new();
            headers.insert("Nats-Msg-Id", event.message_id.as_str());
            if let Some(inbox) = &self.inbox {
                headers.insert("Wakegate-Outcome-To", format!("{inbox}.{at}").as_str());
            }
            let (subject, body) = (event.subject.clone(), event.body.clone());
            let publish = self.context.publish_with_headers(subject, headers, body);
            acks.send(runtime.block_on(publish)?)?;
        }
        Ok(times)
    }
}

/// Takes acknowledgements as they come: the client sends no more than 5,000 ahead of them.
async fn all_acknowledged(mut acks: mpsc::UnboundedReceiver<PublishAckFuture>) -> Result<()> {
    while let Some(ack) = acks.recv().await {
        acknowledged(ack).await?;
    }
    Ok(())
}

impl Sending {
    async fn finish(mut self, arrived: &[Option<Instant>]) -> Result<Latency> {
        let joined = tokio::task::spawn_blocking(|| self.thread.join()).await?;
        let sent = joined.map_err(|_| "the sender panicked")??;
        while let Some(acknowledged) = self.acknowledging.join_next().await {
            acknowledged??;
        }
        let (mut took, mut late) = (Vec::new(), Vec::new());
        for (&(due, sent), arrived) in sent.iter().zip(arrived).skip(self.warm_up) {
            took.push(arrived.ok_or("an event has no outcome")?.duration_since(due));
            late.push(sent.duration_since(due));
        }
        Ok(Latency::of(took, late))
    }
}
