//! How a command ends: its exit code, and what is said where it failed.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use crate::config::ConfigError;
use crate::error_text::one_line;

/// Exit codes, as `wakegate --help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// Failed.
    Failed,
    /// The configuration or the usage is wrong; nothing was started.
    Configuration,
    /// `publish`: the server called an event a duplicate.
    Duplicate,
    /// The streams differ from their declaration.
    StreamsDiffer,
    /// Nothing was changed: it is paused by somebody else, or not paused, or not known.
    Unchanged,
}

impl Exit {
    /// The number that the process ends with.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Configuration => 2,
            Self::Duplicate => 3,
            Self::StreamsDiffer => 4,
            Self::Unchanged => 5,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command did not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What failed, for what, and why.
    pub what: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl Failure {
    /// Something failed for no error of another.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, what: what.into(), remedy: None }
    }

    /// Something failed because of `error`, whose causes are told too.
    #[must_use]
    pub fn of(what: impl fmt::Display, error: &dyn Error) -> Self {
        Self::new(format!("{what}: {}", one_line(error)))
    }

    /// With another exit code.
    #[must_use]
    pub fn exits(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    /// With what to do.
    #[must_use]
    pub fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wakegate: {}", self.what)?;
        match &self.remedy {
            Some(remedy) => write!(f, "\n  {remedy}"),
            None => Ok(()),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::new(error.to_string())
            .exits(Exit::Configuration)
            .remedy("`wakegate config check` looks again once they are mended; nothing was started")
    }
}
