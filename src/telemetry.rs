//! Logs: for people where standard error is a terminal, one JSON object a line elsewhere. Standard
//! output belongs to what a command prints.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

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

/// What `log.level` says.
///
/// Spaces around its parts are taken away here: tracing-subscriber (0.3.23) looks for the parts of a
/// directive in its trimmed text and cuts them from the untrimmed one, which names another target
/// for `info, sqlx=warn` and panics where that cut falls within a character.
pub(crate) fn filter(text: &str) -> Result<EnvFilter, ParseError> {
    EnvFilter::try_new(text.split(',').map(str::trim).collect::<Vec<_>>().join(","))
}

/// Sends this process's logs to standard error.
///
/// # Errors
/// [`TelemetryError`] when it is called twice.
pub fn init(log: &LogConfig) -> Result<(), TelemetryError> {
    let filter = filter(&log.level).map_err(|error| TelemetryError::Filter(one_line(&error)))?;
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

#[cfg(test)]
mod tests {
    use super::filter;

    #[test]
    fn spaces_around_the_parts_of_a_filter_change_nothing() {
        for (spaced, plain) in [
            (" info , sqlx=warn ", "info,sqlx=warn"),
            ("\u{3000}error", "error"),
            ("info,\n  wakegate::lane=debug", "info,wakegate::lane=debug"),
        ] {
            let said = |text| filter(text).map(|filter| filter.to_string()).unwrap();
            assert_eq!(said(spaced), said(plain));
            assert!(said(plain).contains(plain.rsplit(',').next().unwrap()), "{}", said(plain));
        }
    }

    #[test]
    fn no_text_is_more_than_an_error() {
        // The one that fuzzing found.
        assert!(filter("\nost \u{202e}[nonsense]\n;").is_err());
        for text in ["\u{202e}[", " \u{202e}=info", "\t\u{e9}[a]=", " a\u{e9}\u{202e}=x"] {
            let _ = filter(text);
        }
    }
}
