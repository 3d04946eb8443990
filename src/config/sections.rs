//! What the configuration holds, section by section.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::{DatabaseUrl, NatsServers};
use crate::admission::Shadows;
use crate::admission::limits::Ceilings;
use crate::broker::TlsFiles;
use crate::traces::{Endpoint, TraceHeaders};

/// How nats-server is reached.
#[derive(Debug, Clone)]
pub struct NatsConfig {
    /// `nats.url`
    pub url: NatsServers,
    /// `nats.credentials_file`
    pub credentials_file: Option<PathBuf>,
    /// `nats.tls_…`
    pub tls: TlsFiles,
    /// `nats.inbox_prefix`
    pub inbox_prefix: String,
    /// `nats.request_timeout_ms`
    pub request_timeout: Duration,
}

/// How the database is reached.
#[derive(Debug, Clone)]
pub struct DatabaseConfig {
    /// `database.url`
    pub url: DatabaseUrl,
    /// `database.connections_max`
    pub connections_max: u32,
    /// `database.read_deadline_ms`
    pub read_deadline: Duration,
    /// `database.record_deadline_ms`
    pub record_deadline: Duration,
}

/// Where metrics and health are served.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// `http.addr`
    pub addr: SocketAddr,
}

/// Where streams and consumers are declared.
#[derive(Debug, Clone)]
pub struct StreamsConfig {
    /// `streams.directory`; none means what is compiled in.
    pub directory: Option<PathBuf>,
}

/// Limits of a lane.
#[derive(Debug, Clone)]
pub struct LanesConfig {
    /// `lanes.batch_wakes_max`
    pub batch_wakes_max: u32,
    /// `lanes.batch_bytes_max`
    pub batch_bytes_max: usize,
    /// `lanes.hold_backoff_ms_min`
    pub hold_backoff_min: Duration,
    /// `lanes.hold_backoff_ms_max`
    pub hold_backoff_max: Duration,
    /// `lanes.store_away_give_up_ms`
    pub store_away_give_up: Duration,
    /// `lanes.spread`
    pub spread: bool,
}

/// What the gates do.
#[derive(Debug, Clone, Copy)]
pub struct GatesConfig {
    /// `gates.….mode`
    pub shadows: Shadows,
}

/// The platform's ceilings.
#[derive(Debug, Clone)]
pub struct LimitsConfig {
    /// `limits.mode`
    pub mode: LimitsMode,
    /// `limits.version`
    pub version: Option<String>,
    /// `limits.enforced`
    pub enforced: bool,
    /// All the others.
    pub ceilings: Ceilings,
}

impl LimitsConfig {
    /// The ceilings, where they are enforced.
    #[must_use]
    pub fn enforced(&self) -> Option<Ceilings> {
        self.enforced.then_some(self.ceilings)
    }
}

/// Whether the defaults will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitsMode {
    /// They will.
    Development,
    /// They will not: every ceiling is set by whoever operates this.
    Production,
}

impl LimitsMode {
    /// As the setting says it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Development => "development",
            Self::Production => "production",
        }
    }
}

/// How operators are answered.
#[derive(Debug, Clone)]
pub struct ControlConfig {
    /// `control.enabled`
    pub enabled: bool,
    /// `control.nats_url`; none means `nats.url`.
    pub nats_url: Option<NatsServers>,
    /// `control.credentials_file`; none means `nats.credentials_file`.
    pub credentials_file: Option<PathBuf>,
    /// `control.database_url`; none means `database.url`.
    pub database_url: Option<DatabaseUrl>,
    /// `control.connections_max`
    pub connections_max: u32,
    /// `control.deadline_ms`
    pub deadline: Duration,
    /// `control.requests_max`
    pub requests_max: u32,
}

/// How runners are answered, and how the queue is kept in order.
#[derive(Debug, Clone)]
pub struct QueueConfig {
    /// `queue.enabled`
    pub enabled: bool,
    /// `queue.nats_url`; none means `nats.url`.
    pub nats_url: Option<NatsServers>,
    /// `queue.credentials_file`; none means `nats.credentials_file`.
    pub credentials_file: Option<PathBuf>,
    /// `queue.database_url`; none means `database.url`.
    pub database_url: Option<DatabaseUrl>,
    /// `queue.connections_max`
    pub connections_max: u32,
    /// `queue.deadline_ms`
    pub deadline: Duration,
    /// `queue.requests_max`
    pub requests_max: u32,
    /// `queue.waiters_max`
    pub waiters_max: u32,
    /// `queue.wait_seconds_max`
    pub wait_max: Duration,
    /// `queue.lease_seconds`
    pub lease: Duration,
    /// `queue.cancel_grace_seconds`
    pub cancel_grace: Duration,
    /// `queue.keeper_interval_ms`
    pub keeper_interval: Duration,
    /// `queue.look_again_ms`
    pub look_again: Duration,
}

/// Where spans are exported to.
#[derive(Debug, Clone)]
pub struct TracesConfig {
    /// `traces.endpoint`; none means that there are no traces.
    pub endpoint: Option<Endpoint>,
    /// `traces.headers`
    pub headers: TraceHeaders,
    /// `traces.sample_ratio`
    pub sample_ratio: f64,
    /// `traces.timeout_ms`
    pub timeout: Duration,
    /// `traces.queue_spans_max`
    pub queue_spans_max: usize,
}

/// Limits of the end.
#[derive(Debug, Clone)]
pub struct ShutdownConfig {
    /// `shutdown.deadline_ms`
    pub deadline: Duration,
}

/// What is logged and how.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// `log.format`
    pub format: LogFormat,
    /// `log.level`
    pub level: String,
}

/// How a line of the log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Human in a terminal, JSON otherwise.
    Auto,
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}
