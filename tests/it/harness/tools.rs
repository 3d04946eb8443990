//! Programs that the tests run beside nats-server and PostgreSQL; `make tools` fetches them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::golden::repository;

/// What was fetched.
fn fetched(path: &str) -> PathBuf {
    repository().join(".tools").join(path)
}

/// The first of these that starts and answers as wanted.
fn program(name: &str, places: &[PathBuf], probe: &[&str]) -> PathBuf {
    let answers = |place: &&PathBuf| {
        let probed = Command::new(place).args(probe).output();
        probed.is_ok_and(|output| output.status.success())
    };
    let found = places.iter().find(answers).cloned();
    found.unwrap_or_else(|| panic!("no {name} that does; run `make tools`. Looked at: {places:?}"))
}

/// `prometheus` or `promtool`.
pub(crate) fn of_prometheus(name: &str) -> PathBuf {
    let places = [fetched("prometheus").join(name), PathBuf::from(name)];
    program(&format!("{name} 2.42 or newer"), &places, &["--version"])
}

/// A node that runs TypeScript without being asked to.
pub(crate) fn node() -> Command {
    let places = [fetched("node/bin/node"), PathBuf::from("node")];
    let probe = "process.exit(process.features.typescript ? 0 : 1)";
    Command::new(program("node 22.18 or newer", &places, &["--eval", probe]))
}

/// The modules that `examples/publishing/typescript` imports.
pub(crate) fn node_modules() -> PathBuf {
    present(fetched("typescript/node_modules"))
}

/// Python with the modules that the tests and `examples/publishing/python` import.
pub(crate) fn python() -> Command {
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", present(fetched("python"))).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn present(path: PathBuf) -> PathBuf {
    assert!(path.is_dir(), "{} is not there; run `make tools`", path.display());
    path
}

/// Runs a command to its end, and returns what it printed.
///
/// # Panics
/// It failed.
pub(crate) fn printed(command: &mut Command) -> String {
    let output = command.output();
    let output: Output = output.unwrap_or_else(|error| panic!("{command:?} starts: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{stdout}{stderr}", output.status);
    stdout
}

/// The documents of a YAML file of the repository.
pub(crate) fn yaml(path: &str) -> Vec<Value> {
    const READ: &str = "import json, sys, yaml\n\
        print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1], encoding='utf-8')))))";
    let printed = printed(python().args(["-c", READ]).arg(repository().join(Path::new(path))));
    serde_json::from_str(&printed).expect("what Python prints is JSON")
}
