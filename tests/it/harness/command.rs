//! Runs the real `wakegate` binary, in a directory of its own and without the caller's settings.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The binary with these arguments, to be run in `directory`. Nothing of this process's
/// `WAKEGATE_*` environment reaches it, and its standard input is empty.
pub(crate) fn wakegate(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wakegate"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("WAKEGATE_") {
            command.env_remove(name);
        }
    }
    // How wide help is must not depend on the terminal that the tests were started from.
    command.env_remove("COLUMNS");
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    command
}

/// What a command that has ended said.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit code; none where a signal ended it.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

/// Runs a command to its end.
pub(crate) fn ended(command: &mut Command) -> Ended {
    let Output { status, stdout, stderr } = command.output().expect("wakegate starts");
    let text = |bytes| String::from_utf8(bytes).expect("wakegate writes UTF-8");
    Ended { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}
