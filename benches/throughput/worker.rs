//! The worker itself: the release binary as a child process, over a stream that is already full.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::postgres::Cluster;
use crate::stream::Stream;
use crate::workloads::Outcomes;
use crate::{Result, eventually, process};

/// How often the worker is asked how far it is: each asking costs it some 0.3 ms.
const ASK_EVERY: Duration = Duration::from_millis(25);
const LANES: u32 = 8;
const LAST_LINES: usize = 20;

/// What a worker did, from the first outcomes it reported to the last acknowledgement that
/// nats-server knows of; start-up is not in it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Worked {
    pub(crate) events_per_second: f64,
    /// Processor seconds per million events.
    pub(crate) cpu: Cpu,
    pub(crate) memory_peak_mib: Option<f64>,
    pub(crate) batch_wakes_mean: f64,
    /// Mean milliseconds per batch and stage.
    pub(crate) stage_ms: BTreeMap<String, f64>,
    #[serde(skip)]
    pub(crate) outcomes: Outcomes,
}

/// Who used the processor, in seconds per million events; none where the system does not tell.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Cpu {
    pub(crate) worker: Option<f64>,
    pub(crate) nats: Option<f64>,
    pub(crate) postgres: Option<f64>,
    /// The benchmark, which only looks on.
    pub(crate) bench: Option<f64>,
}

/// A `wakegate run`; it is killed when this is dropped.
pub(crate) struct Worker {
    child: Child,
    address: String,
    log: PathBuf,
}

impl Worker {
    /// Starts one. `WAKEGATE_*` settings of the benchmark's own environment reach it, so that
    /// settings can be compared.
    pub(crate) fn start(
        stream: &Stream,
        database_url: &str,
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let address = format!("127.0.0.1:{port}");
        let log = stream.scratch().join("worker.log");
        let child = command(stream.scratch(), &stream.server.url())
            .arg("run")
            .env("WAKEGATE_DATABASE_URL", database_url)
            .env("WAKEGATE_HTTP_ADDR", &address)
            .envs(settings.iter().copied())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()?;
        Ok(Self { child, address, log })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it counts; nothing as long as it does not serve yet.
    pub(crate) async fn metrics(&mut self) -> Result<Option<Metrics>> {
        if let Some(status) = self.child.try_wait()? {
            return Err(self.account(&format!("ended: {status}")).into());
        }
        Ok(get(&self.address, "/metrics").await.map(Metrics))
    }

    /// Ends it as an operator would.
    pub(crate) async fn end(mut self) -> Result<()> {
        Command::new("kill").args(["-TERM", &self.pid().to_string()]).status()?;
        let within = Duration::from_secs(30);
        let status =
            eventually("the worker's end", within, async || Ok(self.child.try_wait()?)).await?;
        if status.success() { Ok(()) } else { Err(self.account(&status.to_string()).into()) }
    }

    fn account(&self, what: &str) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
        format!("the worker {what}\n{last}")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Declares the project's streams on a server.
pub(crate) fn apply_streams(directory: &Path, nats_url: &str) -> Result<()> {
    let output = command(directory, nats_url).args(["streams", "apply"]).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("streams apply: {}", String::from_utf8_lossy(&output.stderr)).into())
}

fn command(directory: &Path, nats_url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wakegate"));
    command.current_dir(directory).env("WAKEGATE_NATS_URL", nats_url).stdin(Stdio::null());
    command
}

/// Lets a worker decide everything that is on the stream, and measures it meanwhile.
pub(crate) async fn work(
    stream: &Stream,
    cluster: Option<&Cluster>,
    database_url: &str,
    settings: &[(&str, &str)],
    count: u64,
) -> Result<Worked> {
    let mut worker = Worker::start(stream, database_url, settings)?;
    let postgres = cluster.map(Cluster::pid).transpose()?;
    let watched = Watched { worker: worker.pid(), nats: stream.pid()?, postgres };
    let mut begun: Option<(Instant, u64, Cpu)> = None;
    let mut asking = tokio::time::interval(ASK_EVERY);
    let metrics = loop {
        asking.tick().await;
        let Some(metrics) = worker.metrics().await? else { continue };
        let decided = metrics.outcomes().total();
        if decided > 0 && begun.is_none() {
            begun = Some((Instant::now(), decided, watched.used()));
        }
        if decided >= count {
            break metrics;
        }
    };
    let consumers: Vec<String> = (0..LANES).map(|lane| format!("lane-{lane}")).collect();
    stream.settled(&consumers).await?;
    let (started, before, used_before) = begun.ok_or("nothing was decided")?;
    let took = started.elapsed();
    let used_after = watched.used();
    let events = (count - before) as f64;
    let done = Worked {
        events_per_second: events / took.as_secs_f64(),
        cpu: used_after.since(used_before, events / 1e6),
        memory_peak_mib: process::memory_peak_mib(worker.pid()),
        batch_wakes_mean: metrics.mean("wakegate_batch_wakes", ""),
        stage_ms: metrics.stages(),
        outcomes: metrics.outcomes(),
    };
    worker.end().await?;
    Ok(done)
}

/// Processes, by id.
struct Watched {
    worker: u32,
    nats: u32,
    postgres: Option<u32>,
}

impl Watched {
    /// Seconds so far.
    fn used(&self) -> Cpu {
        Cpu {
            worker: process::cpu_seconds(self.worker),
            nats: process::cpu_seconds(self.nats),
            postgres: self.postgres.and_then(process::family_cpu_seconds),
            bench: process::cpu_seconds(std::process::id()),
        }
    }
}

impl Cpu {
    fn since(self, before: Self, millions: f64) -> Self {
        let per_million = |now: Option<f64>, then: Option<f64>| Some((now? - then?) / millions);
        Self {
            worker: per_million(self.worker, before.worker),
            nats: per_million(self.nats, before.nats),
            postgres: per_million(self.postgres, before.postgres),
            bench: per_million(self.bench, before.bench),
        }
    }
}

/// What a worker serves for Prometheus.
pub(crate) struct Metrics(String);

impl Metrics {
    /// The counts of every outcome, whatever the producer.
    pub(crate) fn outcomes(&self) -> Outcomes {
        let of = |outcome: &str| {
            let label = format!("outcome=\"{outcome}\"");
            self.sum("wakegate_wakes_total", &label) as u64
        };
        Outcomes {
            queued: of("queued"),
            coalesced: of("coalesced"),
            deduplicated: of("deduplicated"),
            refused: of("refused"),
        }
    }

    /// The mean of a histogram.
    pub(crate) fn mean(&self, name: &str, label: &str) -> f64 {
        let count = self.sum(&format!("{name}_count"), label);
        if count > 0.0 { self.sum(&format!("{name}_sum"), label) / count } else { 0.0 }
    }

    fn stages(&self) -> BTreeMap<String, f64> {
        ["decode", "facts", "decide", "record", "audit", "settle"]
            .into_iter()
            .map(|stage| {
                let label = format!("stage=\"{stage}\"");
                (stage.to_owned(), self.mean("wakegate_batch_seconds", &label) * 1e3)
            })
            .collect()
    }

    fn sum(&self, name: &str, label: &str) -> f64 {
        let value = |line: &str| -> Option<f64> {
            let rest = line.strip_prefix(name)?;
            if !rest.starts_with(['{', ' ']) || !rest.contains(label) {
                return None;
            }
            rest.rsplit(' ').next()?.parse().ok()
        };
        self.0.lines().filter_map(value).sum()
    }
}

/// Body of a successful answer to a GET, or nothing.
async fn get(address: &str, path: &str) -> Option<String> {
    let mut connection = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}
