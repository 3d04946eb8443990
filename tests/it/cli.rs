//! The command as it is used: help, completions, configuration, exit codes.

mod configuration;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Stdio};

use clap::CommandFactory as _;
use wakegate::cli::Cli;

use crate::harness::command::{Ended, ended, wakegate};
use crate::harness::golden;

fn run_in(directory: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
    ended(wakegate(directory, arguments).envs(variables.iter().copied()))
}

/// Every command by the words that call it.
fn commands() -> Vec<Vec<String>> {
    fn below(command: &clap::Command, path: &[String], all: &mut Vec<Vec<String>>) {
        all.push(path.to_vec());
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            let mut path = path.to_vec();
            path.push(sub.get_name().to_owned());
            below(sub, &path, all);
        }
    }
    let mut all = Vec::new();
    below(&Cli::command(), &[], &mut all);
    all
}

#[test]
fn the_help_of_every_command_is_as_it_was_reviewed() {
    let directory = tempfile::tempdir().unwrap();
    let mut names = BTreeSet::new();
    for path in commands() {
        let mut arguments: Vec<&str> = path.iter().map(String::as_str).collect();
        let name = format!("help-{}.txt", [&["wakegate"], &arguments[..]].concat().join("-"));
        arguments.push("--help");
        let help = run_in(directory.path(), &arguments, &[]);
        assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""), "{arguments:?}");
        golden::check(&name, &help.stdout);
        names.insert(name);
    }
    let files: BTreeSet<String> = std::fs::read_dir(golden::repository().join("tests/golden"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("help-"))
        .collect();
    assert_eq!(files, names, "a file for each command, and no other");
}

#[test]
fn completions_are_printed_for_every_shell_even_where_the_configuration_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let made =
            run_in(directory.path(), &["completions", shell], &[("WAKEGATE_HTTP_ADDR", "nowhere")]);
        assert_eq!((made.code, made.stderr.as_str()), (Some(0), ""), "{shell}");
        for word in ["wakegate", "publish", "until-caught-up", "streams"] {
            assert!(made.stdout.contains(word), "{shell} completes {word}");
        }
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = wakegate(directory.path(), &["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn a_wrong_usage_ends_with_2_and_says_what_is_right() {
    let directory = tempfile::tempdir().unwrap();
    for (arguments, says) in [
        (&[][..], "Usage: wakegate"),
        (&["runn"], "similar subcommand"),
        (&["run", "--until-caught-u"], "--until-caught-up"),
        (&["publish", "--producer", "a.b"], "ASCII letters, digits"),
        (&["publish", "--producer", ""], "ASCII letters, digits"),
        (&["publish", "--producer", "-"], "ASCII letters, digits"),
        (&["completions", "cmd"], "possible values: bash"),
    ] {
        let wrong = run_in(directory.path(), arguments, &[]);
        assert_eq!((wrong.code, wrong.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(wrong.stderr.contains(says), "{arguments:?}: {}", wrong.stderr);
    }
}

#[test]
fn a_worker_whose_address_is_taken_says_so_and_ends() {
    let directory = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let ended = run_in(directory.path(), &["run"], &[("WAKEGATE_HTTP_ADDR", &addr)]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    for says in [
        format!("cannot listen on {addr} for /metrics, /livez and /readyz: Address already in use"),
        "set WAKEGATE_HTTP_ADDR".to_owned(),
    ] {
        assert!(ended.stderr.contains(&says), "{}", ended.stderr);
    }
}

#[test]
fn events_that_are_not_there_are_not_published() {
    let directory = tempfile::tempdir().unwrap();
    let ended = run_in(directory.path(), &["publish", "none.json"], &[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains("cannot open none.json: No such file"), "{}", ended.stderr);
}

/// The first line that a worker logs, which is where it serves.
fn first_log_line(variables: &[(&str, &str)]) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let mut worker: Child = wakegate(directory.path(), &["run"])
        .env("WAKEGATE_HTTP_ADDR", "127.0.0.1:0")
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("wakegate starts");
    let mut log = BufReader::new(worker.stderr.take().expect("a pipe"));
    let mut line = String::new();
    log.read_line(&mut line).expect("a line");
    // It may have ended by itself, for want of servers.
    let _ = worker.kill();
    worker.wait().expect("it has ended");
    let mut stdout = String::new();
    let mut pipe = worker.stdout.take().expect("a pipe");
    pipe.read_to_string(&mut stdout).expect("text");
    assert_eq!(stdout, "", "standard output is for what commands print");
    line
}

#[test]
fn logs_are_json_where_standard_error_is_no_terminal() {
    for variables in [&[][..], &[("WAKEGATE_LOG_FORMAT", "json")]] {
        let line = first_log_line(variables);
        let json: serde_json::Value = serde_json::from_str(&line).expect("one JSON object a line");
        assert_eq!(json["level"], "INFO");
        assert_eq!(json["message"], "serving /metrics, /livez and /readyz");
        let addr: std::net::SocketAddr = json["addr"].as_str().unwrap().parse().unwrap();
        assert_ne!(addr.port(), 0, "it says where it really listens");
        assert!(json["timestamp"].as_str().unwrap().ends_with('Z'));
    }
}

#[test]
fn logs_are_for_people_where_they_are_asked_for() {
    let line = first_log_line(&[("WAKEGATE_LOG_FORMAT", "human")]);
    assert!(line.contains(" INFO ") && line.contains("addr=127.0.0.1:"), "{line}");
    assert!(!line.contains('\u{1b}'), "no colours where there is no terminal: {line:?}");
}
