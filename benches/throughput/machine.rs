//! The machine, by what bears on the figures.

use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Serialize;

const SYNCS: u32 = 200;

/// Cores, versions, and how long the disk takes to make a page durable.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    cores: usize,
    /// Median; none where the disk could not be tried.
    fdatasync_micros: Option<u128>,
    /// Where the servers keep their files.
    file_system: String,
    postgres: String,
    nats_server: String,
    wakegate: &'static str,
    /// Settings of the worker that differ from its own.
    settings: Vec<String>,
}

impl Machine {
    pub(crate) fn look(nats_server: String) -> Self {
        let directory = std::env::temp_dir().display().to_string();
        let settings = std::env::vars_os()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value))
            .filter(|(name, _)| name.starts_with("WAKEGATE_") && name != "WAKEGATE_NATS_SERVER")
            .map(|(name, value)| format!("{name}={}", value.display()))
            .collect();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            fdatasync_micros: fdatasync().map(|took| took.as_micros()),
            file_system: said("stat", &["-f", "-c", "%T", &directory]),
            postgres: crate::postgres::version(),
            nats_server,
            wakegate: env!("CARGO_PKG_VERSION"),
            settings,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wakegate {}, {} cores, {}", self.wakegate, self.cores, self.file_system)?;
        if let Some(micros) = self.fdatasync_micros {
            write!(f, " (fdatasync {micros} µs)")?;
        }
        write!(f, "\n{}, nats-server {}", self.postgres, self.nats_server)?;
        for setting in &self.settings {
            write!(f, "\n{setting}")?;
        }
        Ok(())
    }
}

/// How long one page takes to be durable, where the servers keep their files.
fn fdatasync() -> Option<Duration> {
    let mut file: File = tempfile::tempfile().ok()?;
    let mut took = Vec::new();
    for _ in 0..SYNCS {
        file.write_all(&[0; 8192]).ok()?;
        let started = Instant::now();
        file.sync_data().ok()?;
        took.push(started.elapsed());
    }
    took.sort();
    took.get(took.len() / 2).copied()
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default()
}
