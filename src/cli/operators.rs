//! What the commands of operators share: who and why, which scope, and how an error ends a command.

use std::io::{self, IsTerminal as _, Write as _};

use clap::Args;
use tokio::runtime::Builder;

use super::servers::{AnyStore, block_on, control_store, queue_store};
use super::table::{Form, json_line, remark};
use super::{Exit, Failure, print};
use crate::config::{Config, DatabaseUrl};
use crate::control::documents::Scope;
use crate::control::{ControlError, ErrorCode};
use crate::store::control::{Operator, Why};
use crate::wake::OrganizationId;

/// Who changes something, and why. Both are kept.
#[derive(Debug, Clone, Args)]
pub struct Signature {
    /// Why; it is kept, and shown to whoever asks
    #[arg(long, value_name = "TEXT", value_parser = why)]
    pub reason: Why,
    /// Who; the user of this shell, unless told otherwise
    #[arg(long, value_name = "NAME", env = "USER", hide_env_values = true, value_parser = operator)]
    pub actor: Operator,
}

pub(super) fn why(text: &str) -> Result<Why, String> {
    Why::parse(text).map_err(|fault| fault.to_string())
}

pub(super) fn operator(text: &str) -> Result<Operator, String> {
    Operator::parse(text).map_err(|fault| fault.to_string())
}

/// As an argument.
pub(super) fn organization(text: &str) -> Result<OrganizationId, String> {
    OrganizationId::parse(text).map_err(|fault| fault.to_string())
}

/// What is paused or resumed.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub struct ScopeArgs {
    /// Every organization
    #[arg(long)]
    pub platform: bool,
    /// One organization; '' is that of events which name none
    #[arg(long, value_name = "ID", value_parser = organization)]
    pub organization: Option<OrganizationId>,
}

impl ScopeArgs {
    /// As a request says it.
    pub(super) fn scope(self) -> (Scope, Option<OrganizationId>) {
        match self.organization {
            Some(organization) => (Scope::Organization, Some(organization)),
            None => (Scope::Platform, None),
        }
    }
}

/// Runs a command on the database that operators use.
pub(super) fn on_store<T>(
    config: &Config,
    command: impl AsyncFnOnce(AnyStore) -> Result<T, ControlError>,
) -> Result<T, Failure> {
    let url = config.control.database_url.as_ref().unwrap_or(&config.database.url);
    on(url, control_store, config, command)
}

/// Runs a command on the database as those who answer runners use it.
pub(super) fn on_queue_store<T>(
    config: &Config,
    command: impl AsyncFnOnce(AnyStore) -> Result<T, ControlError>,
) -> Result<T, Failure> {
    let url = config.queue.database_url.as_ref().unwrap_or(&config.database.url);
    on(url, queue_store, config, command)
}

fn on<T>(
    url: &DatabaseUrl,
    store: fn(&Config) -> Result<AnyStore, Failure>,
    config: &Config,
    command: impl AsyncFnOnce(AnyStore) -> Result<T, ControlError>,
) -> Result<T, Failure> {
    block_on(&mut Builder::new_current_thread(), async {
        let done: Result<T, ControlError> = command(store(config)?).await;
        done.map_err(|error| failure(url, &error))
    })
}

/// How an error ends a command.
fn failure(url: &DatabaseUrl, error: &ControlError) -> Failure {
    let mut what = url.url().scrub(&error.message);
    if let Some(id) = &error.pause_id {
        what = format!("{what} (pause {})", super::table::shown(id));
    }
    let failure = Failure::new(what);
    match error.code {
        ErrorCode::AlreadyPaused
        | ErrorCode::NotPaused
        | ErrorCode::PauseChanged
        | ErrorCode::UnknownAgent
        | ErrorCode::UnknownRun
        | ErrorCode::AlreadyEnded => failure.exits(Exit::Unchanged),
        ErrorCode::Unavailable => failure
            .remedy("is the database there? WAKEGATE_DATABASE_URL says where it is looked for"),
        _ => failure,
    }
}

/// Whether standard output takes colours.
pub(super) fn colours() -> bool {
    io::stdout().is_terminal()
}

/// Prints one document: for people as `table` makes it.
pub(super) fn print_as<T: serde::Serialize>(
    form: Form,
    document: &T,
    table: impl FnOnce(&T, u16) -> String,
) -> Result<Exit, Failure> {
    match form {
        Form::Json => print(&json_line(document))?,
        Form::Table { width } => print(&table(document, width))?,
    }
    Ok(Exit::Done)
}

/// Says something beside the output.
pub(super) fn complain(text: &str) {
    // Where standard error is closed, the exit code has to do.
    let _ = writeln!(io::stderr().lock(), "{}", remark(&format!("wakegate: {text}")));
}
