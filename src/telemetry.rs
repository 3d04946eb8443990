//! Logs: for people where standard error is a terminal, one JSON object a line elsewhere. Standard
//! output belongs to what a command prints.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::config::{LogConfig, LogFormat};

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

/// An error and its causes, in one line and free of control characters. A cause that its parent has
/// already told is not told again.
#[must_use]
pub fn one_line(error: &dyn Error) -> String {
    let mut line = sanitised(&error.to_string());
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = sanitised(&error.to_string());
        if !line.ends_with(&text) {
            let _ = write!(line, ": {text}");
        }
        cause = error.source();
    }
    line
}

/// Control characters as escapes: what a server or a publisher said must not forge a line of the
/// log or move a terminal's cursor.
#[must_use]
pub fn sanitised(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            clean.extend(character.escape_default());
        } else {
            clean.push(character);
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{what}")]
    struct Link {
        what: &'static str,
        #[source]
        cause: Option<Box<Link>>,
    }

    fn chain(of: &[&'static str]) -> Link {
        let (what, rest) = of.split_first().expect("at least one link");
        Link { what, cause: (!rest.is_empty()).then(|| Box::new(chain(rest))) }
    }

    #[test]
    fn an_error_and_its_causes_are_one_line() {
        for (links, line) in [
            (&["cannot connect"][..], "cannot connect"),
            (
                &["cannot connect", "refused", "os error 111"],
                "cannot connect: refused: os error 111",
            ),
            (&["cannot connect: refused", "refused"], "cannot connect: refused"),
            (&["two\nlines", "\u{1b}[2J\0"], "two\\nlines: \\u{1b}[2J\\u{0}"),
        ] {
            assert_eq!(one_line(&chain(links)), line);
        }
    }
}
