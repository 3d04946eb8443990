//! Logs: for people where standard error is a terminal, one JSON object a line elsewhere. Standard
//! output belongs to what a command prints.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::config::{LogConfig, LogFormat};
use crate::error_text::one_line;

/// Logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// `log.level` is no filter; the configuration has checked it before.
    #[error("log.level is no filter: {0}")]
    Filter(String),
    /// Something in this process logs already.
    #[error("logging is set up already")]
    SetUpAlready,
}

/// Sends this process's logs to standard error.
///
/// # Errors
/// [`TelemetryError`] when it is called twice.
pub fn init(log: &LogConfig) -> Result<(), TelemetryError> {
    let filter =
        EnvFilter::try_new(&log.level).map_err(|error| TelemetryError::Filter(one_line(&error)))?;
    let terminal = io::stderr().is_terminal();
    let people = match log.format {
        LogFormat::Auto => terminal,
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    let base = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let set_up = if people {
        base.with_ansi(terminal).try_init()
    } else {
        base.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init()
    };
    set_up.map_err(|_| TelemetryError::SetUpAlready)
}
