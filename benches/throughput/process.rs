//! What processes have used, as Linux tells it; elsewhere there is no answer, and the report says so.

use std::fs;
use std::process::Command;
use std::sync::OnceLock;

/// Seconds of processor time that a process has used.
pub(crate) fn cpu_seconds(pid: u32) -> Option<f64> {
    Some(Times::of(pid)?.own as f64 / ticks_per_second())
}

/// The same with the children that it still has, or has had.
pub(crate) fn family_cpu_seconds(root: u32) -> Option<f64> {
    let root_times = Times::of(root)?;
    let living: u64 = children(root).into_iter().filter_map(Times::of).map(|it| it.own).sum();
    Some((root_times.own + root_times.reaped + living) as f64 / ticks_per_second())
}

/// Most memory that a process has had resident so far, in MiB.
pub(crate) fn memory_peak_mib(pid: u32) -> Option<f64> {
    status_mib(pid, "VmHWM:")
}

/// Memory that a process has resident, in MiB.
pub(crate) fn memory_mib(pid: u32) -> Option<f64> {
    status_mib(pid, "VmRSS:")
}

fn status_mib(pid: u32, field: &str) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}

struct Times {
    parent: u32,
    own: u64,
    reaped: u64,
}

impl Times {
    /// The fields of `/proc/<pid>/stat` behind the name, which may hold anything but is in brackets.
    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<u64> =
            fields.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect();
        let at = |index: usize| fields.get(index).copied();
        Some(Self {
            parent: u32::try_from(at(0)?).ok()?,
            own: at(10)? + at(11)?,
            reaped: at(12)? + at(13)?,
        })
    }
}

fn children(parent: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&pid| Times::of(pid).is_some_and(|times| times.parent == parent))
        .collect()
}

fn ticks_per_second() -> f64 {
    static TICKS: OnceLock<f64> = OnceLock::new();
    *TICKS.get_or_init(|| {
        let output = Command::new("getconf").arg("CLK_TCK").output().ok();
        let text = output.and_then(|output| String::from_utf8(output.stdout).ok());
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(100.0)
    })
}
