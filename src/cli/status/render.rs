//! The status for people.

use std::fmt::Write as _;

use serde_json::Value;

use super::Status;
use crate::cli::table::{Side, Table, shown, wrapped};

/// Everything, in tables no wider than `width`.
#[must_use]
pub fn render(status: &Status, width: u16, colours: bool) -> String {
    let mut text = String::new();
    workers(status, width, colours, &mut text);
    lanes(status, width, colours, &mut text);
    counts(&status.counts, width, colours, &mut text);
    pauses(status, width, colours, &mut text);
    for unanswered in &status.unanswered {
        let line = format!("no answer: {}", shown(unanswered));
        let _ = writeln!(text, "{}", wrapped(&line, 2, width));
    }
    text
}

fn said<'a>(document: &'a Value, pointer: &str) -> &'a str {
    document.pointer(pointer).and_then(Value::as_str).unwrap_or("-")
}

/// An instant as a worker says it, to the second.
fn to_the_second(instant: &str) -> String {
    instant.split_once('.').map_or_else(|| instant.to_owned(), |(to, _)| format!("{to}Z"))
}

fn workers(status: &Status, width: u16, colours: bool, text: &mut String) {
    if status.workers.is_empty() {
        text.push_str("no worker answers\n\n");
        return;
    }
    let mut table = Table::new(&[
        ("worker", Side::Whole),
        ("host", Side::Left),
        ("process", Side::Right),
        ("ready", Side::Left),
        ("lanes", Side::Right),
        ("since", Side::Whole),
    ]);
    let mut faults = String::new();
    for worker in &status.workers {
        let lanes = worker["lanes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let owned = lanes.iter().filter(|lane| lane["owned"] == true).count();
        let id = said(worker, "/worker/id");
        table.row([
            id,
            said(worker, "/worker/host"),
            &worker["worker"]["process"].to_string(),
            match (&worker["ready"], &worker["shutting_down"]) {
                (_, Value::Bool(true)) => "ending",
                (Value::Bool(true), _) => "yes",
                _ => "no",
            },
            &owned.to_string(),
            &to_the_second(said(worker, "/worker/started_at")),
        ]);
        let components = worker["components"].as_object().into_iter().flatten();
        for (name, component) in components {
            if !matches!(said(component, "/state"), "ok" | "standby") {
                let reason = shown(said(component, "/reason"));
                let line = format!("{}: {}: {reason}", shown(id), shown(name));
                let _ = writeln!(faults, "  {}", wrapped(&line, 4, width));
            }
        }
    }
    let _ = writeln!(text, "{}{faults}", table.render(width, colours));
}

fn lanes(status: &Status, width: u16, colours: bool, text: &mut String) {
    if status.lanes.is_empty() {
        return;
    }
    let mut table = Table::new(&[
        ("lane", Side::Right),
        ("owner", Side::Whole),
        ("pending", Side::Right),
        ("oldest", Side::Right),
        ("held", Side::Left),
    ]);
    for lane in &status.lanes {
        let pending = lane.pending.map_or_else(|| "?".to_owned(), |pending| pending.to_string());
        let oldest = lane.oldest_pending_seconds.map_or_else(|| "-".to_owned(), age);
        table.row([
            lane.lane.to_string().as_str(),
            lane.owner.as_deref().unwrap_or("nobody"),
            &pending,
            &oldest,
            lane.held.as_deref().unwrap_or("-"),
        ]);
    }
    let _ = writeln!(text, "{}", table.render(width, colours));
}

/// A time in the two largest units that say something.
fn age(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1}s");
    }
    // The clocks of server and worker are no better than that, and a time in seconds fits.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 60")]
    let seconds = seconds as u64;
    match (seconds / 60, seconds / 3_600) {
        (minutes, 0) => format!("{minutes}m{:02}s", seconds % 60),
        (minutes, hours) if hours < 48 => format!("{hours}h{:02}m", minutes % 60),
        (_, hours) => format!("{}d{:02}h", hours / 24, hours % 24),
    }
}

fn counts(counts: &Value, width: u16, colours: bool, text: &mut String) {
    let mut table = Table::new(&[("count", Side::Left), ("", Side::Right)]);
    let mut rows = 0;
    let mut row = |name: &str, number: &Value| {
        if let Some(number) = number.as_u64() {
            table.row([name, &number.to_string()]);
            rows += 1;
        }
    };
    row("runs queued", &counts["queued_runs"]);
    for (name, group) in [
        ("agents", &counts["agents"]),
        ("pauses", &counts["pauses"]),
        ("refused", &counts["refusals"]["by_reason"]),
    ] {
        for (key, number) in group.as_object().into_iter().flatten() {
            row(&format!("{name}: {key}"), number);
        }
    }
    if rows > 0 {
        let _ = writeln!(text, "{}", table.render(width, colours));
    }
    if let Some(since) = counts.pointer("/refusals/since").and_then(Value::as_str) {
        let _ = writeln!(text, "refused: of wakes requested since {}\n", to_the_second(since));
    }
}

fn pauses(status: &Status, width: u16, colours: bool, text: &mut String) {
    if status.pauses.is_empty() {
        if !status.counts.is_null() {
            text.push_str("nothing is paused\n");
        }
        return;
    }
    let mut table = Table::new(&[
        ("paused", Side::Left),
        ("mode", Side::Whole),
        ("since", Side::Whole),
        ("by", Side::Left),
        ("reason", Side::Left),
    ]);
    for pause in &status.pauses {
        let scope = match said(pause, "/scope") {
            "platform" => "(the platform)",
            _ => pause["organization_id"].as_str().unwrap_or("-"),
        };
        table.row([
            scope,
            said(pause, "/mode"),
            &to_the_second(said(pause, "/created_at")),
            said(pause, "/actor"),
            said(pause, "/reason"),
        ]);
    }
    text.push_str(&table.render(width, colours));
    if status.more_pauses {
        text.push_str("and more\n");
    }
}

#[cfg(test)]
mod tests {
    use super::age;

    #[test]
    fn ages_are_told_in_two_units() {
        for (seconds, told) in [
            (0.0, "0.0s"),
            (59.94, "59.9s"),
            (60.0, "1m00s"),
            (3_599.0, "59m59s"),
            (3_600.0, "1h00m"),
            (172_799.0, "47h59m"),
            (172_800.0, "2d00h"),
        ] {
            assert_eq!(age(seconds), told);
        }
    }
}
