//! `wakegate prune`: deletes what has ended and can no longer be asked for.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::runtime::Builder;

use super::operators::complain;
use super::servers::{AnyStore, block_on, connect, database, database_failure, topology};
use super::table::{Form, seconds};
use super::times::duration;
use super::{Exit, Failure, print};
use crate::admission::{ALLOWANCE_WINDOW, COALESCE_WINDOW, DUPLICATE_WINDOW};
use crate::clock::Clock;
use crate::config::Config;
use crate::error_text::one_line;
use crate::store::prune::{Horizon, Table, sweep};
use crate::topology::{Retention, Topology};
use crate::wake::UtcMicros;

/// How far back a gate looks from a wake's own instant.
const LOOKBACK: Duration = DUPLICATE_WINDOW;

const _: () = assert!(LOOKBACK.as_secs() >= ALLOWANCE_WINDOW.as_secs(), "it covers gate 5");
const _: () = assert!(LOOKBACK.as_secs() >= COALESCE_WINDOW.as_secs(), "it covers gate 4");

/// How far the clocks of the servers and this machine may be apart, beside a wake that the stream
/// still holds.
const CLOCKS_APART_MAX: Duration = Duration::from_hours(1);

const AFTER_HELP: &str = "\
Deletes, a few hundred rows at a time, what was requested and has ended longer ago than
--older-than: runs, the wakes that joined them, refusals, redrives, and what the intake rate
counted. A run that has not ended stays, however old, and so do its wakes. --dry-run counts and
deletes nothing.

Refused is an age within which a wake may still be decided by these rows: a wake is delivered
again as long as WAKES keeps it (7 days as declared), and is judged by what was requested in the
24 hours before it (duplicates; the allowance and coalescing look back less far). What the stream
holds is asked of the server, and nothing that its first wake could be judged by is deleted.

Keys stay unless --keys-older-than is given. A key is what makes an occurrence that is published
once more, however much later, a duplicate: once it is deleted, the same occurrence makes a new
run. Give an age at which no producer repeats itself. The key of a run that is kept is kept.

Examples:
  wakegate prune --older-than 30d --dry-run
  wakegate prune --older-than 30d
  wakegate prune --older-than 30d --keys-older-than 365d";

/// Arguments of `prune`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct PruneArgs {
    /// Age from which on rows are deleted: 45m, 36h, 30d, 8w
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub older_than: Duration,
    /// Age from which on keys are deleted too; without it, none is
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub keys_older_than: Option<Duration>,
    /// Count what would be deleted, and delete nothing
    #[arg(long)]
    pub dry_run: bool,
    /// JSON also in a terminal
    #[arg(long)]
    pub json: bool,
}

/// What the servers say of how far back a wake can come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// How long `WAKES` keeps wakes as declared.
    pub declared: Option<Duration>,
    /// What the server has; nothing where it was not reached, or has no such stream.
    pub server: Option<Retention>,
}

/// What may be deleted at `now`, or why that is too young.
///
/// # Errors
/// An age is within a window that decides by these rows.
pub fn horizon(
    now: UtcMicros,
    older_than: Duration,
    keys_older_than: Option<Duration>,
    reach: Reach,
) -> Result<Horizon, String> {
    let server_keeps = reach.server.and_then(|server| server.kept);
    let kept = reach.declared.max(server_keeps).unwrap_or_default();
    let shortest = kept + LOOKBACK;
    if reach.server.is_none() && reach.declared.is_none() {
        return Err("WAKES keeps wakes for ever as declared, and the server cannot be asked what \
                    it holds"
            .to_owned());
    }
    for (name, age) in [("--older-than", Some(older_than)), ("--keys-older-than", keys_older_than)]
    {
        let Some(age) = age else { continue };
        if age < shortest {
            return Err(format!(
                "{name} is shorter than {}: WAKES keeps a wake for {} and may deliver it again, and a \
                 wake is judged by what was requested in the {} before it",
                in_words(shortest),
                in_words(kept),
                in_words(LOOKBACK),
            ));
        }
    }
    if keys_older_than.is_some_and(|keys| keys < older_than) {
        return Err(
            "--keys-older-than is shorter than --older-than: keys outlive their runs".to_owned()
        );
    }
    let held = reach.server.and_then(|server| server.first_stored_at);
    let held = held.map(|first| first - LOOKBACK - CLOCKS_APART_MAX);
    let before = |age: Duration| held.map_or(now - age, |held| held.min(now - age));
    Ok(Horizon { rows: before(older_than), keys: keys_older_than.map(before) })
}

fn in_words(window: Duration) -> String {
    let seconds = window.as_secs();
    for (unit, name) in [(86_400, "d"), (3_600, "h"), (60, "m")] {
        if seconds >= unit && seconds.is_multiple_of(unit) {
            return format!("{}{name}", seconds / unit);
        }
    }
    format!("{seconds}s")
}

/// Prunes.
pub(super) fn execute(config: &Config, args: &PruneArgs) -> Result<Exit, Failure> {
    block_on(&mut Builder::new_current_thread(), async {
        let store = database(config).await?;
        let declared = topology(config)?.wakes_kept();
        let server = match asked(config).await {
            Ok(server) => server,
            Err(failure) => {
                let what = failure.what;
                complain(&format!(
                    "{what}\n  how long WAKES keeps wakes is taken from its declaration"
                ));
                None
            }
        };
        let now = Clock::system().now();
        let reach = Reach { declared, server };
        let horizon =
            horizon(now, args.older_than, args.keys_older_than, reach).map_err(|what| {
                Failure::new(what).exits(Exit::Configuration).remedy("nothing was deleted")
            })?;
        let swept = match store {
            AnyStore::Postgres(store) => sweep(&store, horizon, args.dry_run).await,
            AnyStore::Sqlite(store) => sweep(&store, horizon, args.dry_run).await,
        };
        let swept = swept.map_err(|error| {
            database_failure(config, &error)
                .remedy("what was deleted until then is deleted; run it again")
        })?;
        print(&written(&swept, horizon, args, Form::of_output(args.json)))?;
        Ok(Exit::Done)
    })
}

async fn asked(config: &Config) -> Result<Option<Retention>, Failure> {
    let broker = connect(config).await?;
    Topology::retention(&broker.jetstream()).await.map_err(|error| Failure::new(one_line(&error)))
}

fn written(swept: &[(Table, u64)], horizon: Horizon, args: &PruneArgs, form: Form) -> String {
    let mut text = String::new();
    for (table, rows) in swept {
        let before = match table {
            Table::Keys => horizon.keys,
            Table::Merged
            | Table::Runs
            | Table::Refused
            | Table::Shadowed
            | Table::Intake
            | Table::Redrives => Some(horizon.rows),
        };
        if form == Form::Json {
            let object = json!({ "table": table.as_str(), "rows": rows, "deleted": !args.dry_run,
                "before": before });
            let _ = writeln!(text, "{object}");
            continue;
        }
        let what = match before {
            None => "kept; --keys-older-than deletes keys".to_owned(),
            Some(before) if args.dry_run => {
                format!("would be deleted, from before {}", seconds(before))
            }
            Some(before) => format!("deleted, from before {}", seconds(before)),
        };
        let _ = writeln!(text, "{:<14}  {rows:>9}  {what}", table.as_str());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);
    const NOW: UtcMicros = UtcMicros::from_micros(1_793_534_400_000_000);

    #[test]
    fn an_age_within_a_window_is_refused_and_nothing_on_the_stream_is_reached() {
        let server = |kept: Option<Duration>, first: Option<Duration>| {
            Some(Retention { kept, first_stored_at: first.map(|age| NOW - age) })
        };
        let reach = |declared, server| Reach { declared, server };
        let week = Some(7 * DAY);
        for (older, keys, reach, expected) in [
            (8 * DAY, None, reach(week, None), Ok((8 * DAY, None))),
            (7 * DAY, None, reach(week, None), Err("--older-than is shorter than 8d")),
            (DAY, None, reach(Some(DAY / 24), None), Err("--older-than is shorter than 25h")),
            // The server's own is as good a reason as what is declared.
            (8 * DAY, None, reach(week, server(Some(9 * DAY), None)), Err("shorter than 10d")),
            (30 * DAY, Some(20 * DAY), reach(week, None), Err("keys outlive their runs")),
            (30 * DAY, Some(DAY), reach(week, None), Err("--keys-older-than is shorter than 8d")),
            (30 * DAY, Some(90 * DAY), reach(week, None), Ok((30 * DAY, Some(90 * DAY)))),
            // A stream that keeps everything is bounded by what it holds, or by nothing.
            (30 * DAY, None, reach(None, None), Err("for ever")),
            (30 * DAY, None, reach(None, server(None, None)), Ok((30 * DAY, None))),
            (
                30 * DAY,
                Some(40 * DAY),
                reach(None, server(None, Some(60 * DAY))),
                Ok((61 * DAY + CLOCKS_APART_MAX, Some(61 * DAY + CLOCKS_APART_MAX))),
            ),
            (30 * DAY, None, reach(week, server(week, Some(3 * DAY))), Ok((30 * DAY, None))),
        ] {
            let told = horizon(NOW, older, keys, reach);
            match (told, expected) {
                (Ok(told), Ok((rows, keys))) => {
                    let expected = Horizon { rows: NOW - rows, keys: keys.map(|keys| NOW - keys) };
                    assert_eq!(told, expected);
                }
                (Err(told), Err(says)) => assert!(told.contains(says), "{told}"),
                (told, expected) => panic!("{told:?}, not {expected:?}"),
            }
        }
    }
}
