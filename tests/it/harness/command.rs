//! Runs the real `wakegate` binary, in a directory of its own and without the caller's settings.

use std::io::Write as _;
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

/// Runs a command to its end, with this on its standard input.
pub(crate) fn fed(command: &mut Command, input: &str) -> Ended {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("wakegate starts");
    child.stdin.take().expect("it is piped").write_all(input.as_bytes()).unwrap();
    said(child.wait_with_output().expect("it was started"))
}

/// Runs a command to its end.
pub(crate) fn ended(command: &mut Command) -> Ended {
    said(command.output().expect("wakegate starts"))
}

fn said(Output { status, stdout, stderr }: Output) -> Ended {
    let text = |bytes| String::from_utf8(bytes).expect("wakegate writes UTF-8");
    Ended { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}
