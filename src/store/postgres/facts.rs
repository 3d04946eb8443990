//! All facts of a batch in one statement.
//!
//! What a small batch costs is the number of its statements: each is sent, planned from the cache, set up
//! and answered, whatever it looks up. So the texts of the single reads are put together, each with its
//! own rows and parameters, and every row says of which it is.

use std::fmt::Write as _;
use std::sync::LazyLock;

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, query};

use super::super::StoreError;
use super::super::distinct::distinct;
use super::super::facts::{FactsAnswer, FactsQuery};
use super::reads::{self, get};
use super::room;
use super::session::{Prepared, Sessions};
use crate::admission::facts::{QueuedRuns, Room};

/// Every column that a part can have, and its type.
const COLUMNS: [(&str, &str); 14] = [
    ("position", "integer"),
    ("status", "text"),
    ("pause_id", "text"),
    ("run_id", "uuid"),
    ("requested_at", "timestamptz"),
    ("merged_run_id", "uuid"),
    ("merged_at", "timestamptz"),
    ("actor_type", "text"),
    ("boundary", "text"),
    ("depth", "bigint"),
    ("drained", "bigint"),
    ("millis", "bigint"),
    ("slot_at", "timestamptz"),
    ("limits", "bigint[]"),
];

/// The single reads, in the order in which [`read`] binds what they ask with. Those of gate 0 and of wakes
/// without a task are not among them: each costs something where nothing is asked of it, and hardly any
/// batch asks.
const PARTS: [Part; 6] = [
    Part { text: reads::READ_AGENTS, columns: &["position", "status"] },
    Part { text: reads::READ_PAUSES, columns: &["position", "pause_id"] },
    Part {
        text: reads::READ_KEYS,
        columns: &["position", "run_id", "requested_at", "merged_run_id", "merged_at"],
    },
    Part {
        text: reads::READ_QUEUED_TASKED,
        columns: &["position", "run_id", "requested_at", "actor_type"],
    },
    Part { text: reads::READ_COUNTED, columns: &["position", "requested_at", "run_id"] },
    Part {
        text: room::READ,
        columns: &["boundary", "position", "depth", "drained", "millis", "slot_at", "limits"],
    },
];

struct Part {
    text: &'static str,
    columns: &'static [&'static str],
}

impl Part {
    /// How many values it asks with.
    fn parameters(&self) -> usize {
        (1..100).take_while(|number| self.text.contains(&format!("${number}"))).count()
    }

    /// With its parameters after so many others.
    fn text_after(&self, parameters: usize) -> String {
        let mut pieces = self.text.split('$');
        let mut text = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let digits = piece.len() - piece.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, rest) = piece.split_at(digits);
            match number.parse::<usize>() {
                Ok(number) => {
                    let _ = write!(text, "${}{rest}", number + parameters);
                }
                Err(_) => text.extend(["$", piece]),
            }
        }
        text
    }
}

static TEXT: LazyLock<String> = LazyLock::new(|| {
    let (mut text, mut parameters) = (String::new(), 0);
    for (nth, part) in PARTS.iter().enumerate() {
        let columns = COLUMNS.map(|(name, kind)| {
            if part.columns.contains(&name) {
                format!("x.{name}")
            } else {
                format!("NULL::{kind} AS {name}")
            }
        });
        let (all, before) = (if nth == 0 { "" } else { "\nUNION ALL\n" }, parameters);
        let columns = columns.join(", ");
        let of = part.text_after(before);
        let _ = write!(text, "{all}SELECT {nth} AS part, {columns}\nFROM (\n{of}) x");
        parameters += part.parameters();
    }
    text
});

/// The statement.
pub(super) fn text() -> &'static str {
    &TEXT
}

/// None where something is asked that is not in the statement.
pub(super) async fn read(
    sessions: &Sessions,
    asked: &FactsQuery<'_>,
) -> Result<Option<FactsAnswer>, StoreError> {
    let merging = reads::merging(&asked.merging);
    let (tasked, taskless) = reads::by_index(&merging);
    if !asked.wakes.is_empty() || !taskless.is_empty() {
        return Ok(None);
    }
    let agents = distinct(&asked.agents);
    let organizations = distinct(&asked.organizations);
    let keys = distinct(&asked.keys);
    let windows = distinct(&asked.windows);
    let statement = || -> Prepared {
        // Made of files' texts and of numbers.
        let statement = query(AssertSqlSafe(text()));
        let statement = reads::bind_agents(statement, &agents);
        let statement = reads::bind_pauses(statement, &organizations);
        let statement = reads::bind_keys(statement, &keys);
        let statement = reads::bind_tasks(reads::bind_queued(statement, &tasked), &tasked);
        let statement = reads::bind_counted(statement, &windows, asked.runs_max);
        room::bind_query(statement, &asked.room)
    };
    let rows = sessions.read("the read of all facts", statement).await?;
    let mut parts: [Vec<&PgRow>; PARTS.len()] = Default::default();
    for row in &rows {
        let part: i32 = get(row, "part")?;
        if let Some(part) = usize::try_from(part).ok().and_then(|part| parts.get_mut(part)) {
            part.push(row);
        }
    }
    let [of_agents, of_pauses, of_keys, of_queued, of_counted, of_room] = parts;
    let mut queued = QueuedRuns::default();
    reads::add_queued(&mut queued, of_queued, &tasked)?;
    Ok(Some(FactsAnswer {
        agents: reads::agents_of(of_agents, &agents)?,
        pauses: reads::pauses_of(of_pauses, &organizations)?,
        keys: reads::keys_of(of_keys, &keys)?,
        queued,
        counted: reads::counted_of(of_counted, &windows)?,
        room: if asked.room.is_empty() {
            Room::default()
        } else {
            room::room(of_room, &asked.room)?
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_asks_with_values_of_its_own() {
        let parameters: usize = PARTS.iter().map(Part::parameters).sum();
        assert_eq!(parameters, 2 + 1 + 2 + 6 + 5 + 9);
        let named = |number: usize| {
            let name = format!("${number}");
            let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_digit());
            text().split(&name).skip(1).any(ends)
        };
        assert!((1..=parameters).all(named), "{}", text());
        assert!(!named(parameters + 1) && !named(0), "{}", text());
        let once = Part { text: "SELECT $1, $2 WHERE $1 = '$'", columns: &[] };
        assert_eq!(once.text_after(10), "SELECT $11, $12 WHERE $11 = '$'");
    }

    #[test]
    fn every_column_is_one_that_some_part_has() {
        for part in &PARTS {
            for column in part.columns {
                assert!(COLUMNS.iter().any(|(name, _)| name == column), "{column}");
            }
        }
        for (name, _) in COLUMNS {
            assert!(PARTS.iter().any(|part| part.columns.contains(&name)), "{name}");
        }
    }
}
