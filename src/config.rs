//! The configuration: defaults, then a TOML file, then `WAKEGATE_*` variables, all from one table.
//!
//! Every fault is found before anything starts, and all are reported at once, each with its source.
//! Behind [`Config::load`] no setting is checked again.

pub mod document;
mod file;
mod forms;
mod layers;
pub mod secret;
mod sections;
pub mod settings;
mod suggest;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use self::secret::{DatabaseUrl, Dialect, NatsServers, SecretUrl};
pub use self::sections::{
    ControlConfig, DatabaseConfig, GatesConfig, HttpConfig, LanesConfig, LimitsConfig, LimitsMode,
    LogConfig, LogFormat, NatsConfig, QueueConfig, ShutdownConfig, StreamsConfig, TracesConfig,
};
use crate::admission::Shadows;
use crate::admission::limits::Ceilings;
use crate::broker::TlsFiles;
use crate::traces::TraceHeaders;

/// The file that is read where none is named, if it is there.
pub const DEFAULT_FILE: &str = "wakegate.toml";
/// What the variables' names begin with.
pub const VARIABLE_PREFIX: &str = "WAKEGATE_";

/// A whole and valid configuration. It prints without secrets.
#[derive(Debug, Clone)]
pub struct Config {
    /// `[nats]`
    pub nats: NatsConfig,
    /// `[database]`
    pub database: DatabaseConfig,
    /// `[http]`
    pub http: HttpConfig,
    /// `[streams]`
    pub streams: StreamsConfig,
    /// `[lanes]`
    pub lanes: LanesConfig,
    /// `[gates.…]`
    pub gates: GatesConfig,
    /// `[limits]`
    pub limits: LimitsConfig,
    /// `[control]`
    pub control: ControlConfig,
    /// `[queue]`
    pub queue: QueueConfig,
    /// `[traces]`
    pub traces: TracesConfig,
    /// `[shutdown]`
    pub shutdown: ShutdownConfig,
    /// `[log]`
    pub log: LogConfig,
}

/// Where a setting's value, or a fault, comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The table of settings.
    Default,
    /// A file as such.
    File {
        /// As named, or [`DEFAULT_FILE`].
        path: PathBuf,
    },
    /// A line of a file.
    Line {
        /// As named, or [`DEFAULT_FILE`].
        path: PathBuf,
        /// From 1.
        line: usize,
    },
    /// An environment variable.
    Variable {
        /// Its name.
        name: String,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path } => write!(f, "{}", path.display()),
            Self::Line { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable { name } => f.write_str(name),
        }
    }
}

/// One thing that is wrong. It never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub source: Source,
    /// What, and what would be accepted.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.what)
    }
}

/// Everything that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// Never empty.
    pub faults: Vec<Fault>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.faults.len() == 1 { "fault" } else { "faults" };
        write!(f, "the configuration has {} {plural}", self.faults.len())?;
        self.faults.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

/// A configuration, and where each of its values comes from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// One source a setting, in the order of [`settings::SETTINGS`].
    pub sources: Vec<Source>,
}

impl Config {
    /// Reads the file and lays the variables over it. Without `file`, [`DEFAULT_FILE`] is read if
    /// it is there; a file that is named has to be.
    ///
    /// # Errors
    /// [`ConfigError`] with every fault of file and variables.
    pub fn load(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Loaded, ConfigError> {
        layers::load(file, variables)
    }

    /// [`Config::load`] with this process's environment.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn from_environment(file: Option<&Path>) -> Result<Loaded, ConfigError> {
        Self::load(file, std::env::vars_os())
    }

    /// What the defaults are laid over.
    fn blank() -> Self {
        Self {
            nats: NatsConfig {
                url: NatsServers::default(),
                credentials_file: None,
                tls: TlsFiles::default(),
                inbox_prefix: String::new(),
                request_timeout: Duration::ZERO,
            },
            database: DatabaseConfig {
                url: DatabaseUrl::default(),
                connections_max: 0,
                read_deadline: Duration::ZERO,
                record_deadline: Duration::ZERO,
            },
            http: HttpConfig { addr: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)) },
            streams: StreamsConfig { directory: None },
            lanes: LanesConfig {
                batch_wakes_max: 0,
                batch_bytes_max: 0,
                hold_backoff_min: Duration::ZERO,
                hold_backoff_max: Duration::ZERO,
                store_away_give_up: Duration::ZERO,
                spread: true,
            },
            gates: GatesConfig { shadows: Shadows::default() },
            limits: LimitsConfig {
                mode: LimitsMode::Development,
                version: None,
                enforced: true,
                ceilings: Ceilings::all(0),
            },
            control: ControlConfig {
                enabled: true,
                nats_url: None,
                credentials_file: None,
                database_url: None,
                connections_max: 0,
                deadline: Duration::ZERO,
                requests_max: 0,
            },
            queue: QueueConfig {
                enabled: true,
                nats_url: None,
                credentials_file: None,
                database_url: None,
                connections_max: 0,
                deadline: Duration::ZERO,
                requests_max: 0,
                waiters_max: 0,
                wait_max: Duration::ZERO,
                lease: Duration::ZERO,
                cancel_grace: Duration::ZERO,
                keeper_interval: Duration::ZERO,
                look_again: Duration::ZERO,
            },
            traces: TracesConfig {
                endpoint: None,
                headers: TraceHeaders::default(),
                sample_ratio: 0.0,
                timeout: Duration::ZERO,
                queue_spans_max: 0,
            },
            shutdown: ShutdownConfig { deadline: Duration::ZERO },
            log: LogConfig { format: LogFormat::Auto, level: String::new() },
        }
    }
}

/// The defaults.
impl Default for Config {
    fn default() -> Self {
        layers::defaults()
    }
}
