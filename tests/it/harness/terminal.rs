//! A terminal of 80 columns, of Python's making, with a command in it.

use std::process::Command;

use super::command::Ended;
use super::tools::printed;

/// Columns.
pub(crate) const COLUMNS: usize = 80;

const RUN: &str = r#"
import fcntl, json, os, pty, struct, subprocess, sys, termios, threading

def terminal():
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
    # What is printed stays as it is printed.
    settings = termios.tcgetattr(theirs)
    settings[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    return ours, theirs

def read(ours, printed):
    while True:
        try:
            some = os.read(ours, 65536)
        except OSError:
            return
        if not some:
            return
        printed.append(some)

(output, output_end), (errors, errors_end) = terminal(), terminal()
process = subprocess.Popen(
    sys.argv[2:], stdin=subprocess.DEVNULL, stdout=output_end, stderr=errors_end)
os.close(output_end)
os.close(errors_end)
printed, said = [], []
other = threading.Thread(target=read, args=(errors, said))
other.start()
read(output, printed)
other.join()
text = lambda parts: b"".join(parts).decode()
print(json.dumps({"code": process.wait(), "stdout": text(printed), "stderr": text(said)}))
"#;

/// Runs a command whose standard output is the terminal, and its standard error another.
pub(crate) fn in_terminal(command: &Command) -> Ended {
    let mut python = Command::new("python3");
    python.args(["-c", RUN, &COLUMNS.to_string()]);
    python.arg(command.get_program()).args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        python.current_dir(directory);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => python.env(name, value),
            None => python.env_remove(name),
        };
    }
    let told: serde_json::Value = serde_json::from_str(&printed(&mut python)).expect("JSON");
    let text = |name: &str| told[name].as_str().expect("text").to_owned();
    let code = told["code"].as_i64().and_then(|code| i32::try_from(code).ok());
    Ended { code, stdout: text("stdout"), stderr: text("stderr") }
}

/// A text without its colours.
pub(crate) fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| {
        let (_, rest) = part.split_once('m').expect("nothing but colours");
        plain + rest
    })
}
