//! What was probably meant.

use crate::error_text::sanitised;

/// Says that there is no such thing, and which one is close to it.
pub(super) fn unknown(what: &str, name: &str, known: impl IntoIterator<Item = String>) -> String {
    let mut known: Vec<String> = known.into_iter().collect();
    known.dedup();
    let shown = sanitised(name);
    match nearest(name, &known) {
        Some(near) => format!("there is no {what} {shown}; did you mean {near}?"),
        None if known.len() <= 12 => {
            format!("there is no {what} {shown}; there are {}", known.join(", "))
        }
        None => format!("there is no {what} {shown}; `wakegate config check` lists them all"),
    }
}

/// The closest name, if it is close: at most a third of it differs, or it is the same setting in
/// another section.
fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let last = |name: &str| name.rsplit_once('.').map(|(_, key)| key.to_owned());
    if let Some(key) = last(name)
        && let Some(moved) = known.iter().find(|other| last(other).as_ref() == Some(&key))
    {
        return Some(moved);
    }
    known
        .iter()
        // Their lengths alone may tell that they are far apart, however long a name is.
        .filter(|other| name.len().abs_diff(other.len()) * 3 <= other.len())
        .map(|other| (distance(name, other), other.as_str()))
        .min()
        .filter(|(distance, other)| distance * 3 <= other.len())
        .map(|(_, other)| other)
}

/// Levenshtein's, over bytes: names are ASCII.
fn distance(left: &str, right: &str) -> usize {
    let right = right.as_bytes();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_close_are_suggested_and_others_are_not() {
        let known =
            ["nats.url", "database.url", "lanes.batch_wakes_max", "log.level"].map(str::to_owned);
        for (name, near) in [
            ("lanes.batch_wake_max", Some("lanes.batch_wakes_max")),
            ("lane.batch_wakes_max", Some("lanes.batch_wakes_max")),
            ("log.batch_wakes_max", Some("lanes.batch_wakes_max")),
            ("log.levle", Some("log.level")),
            ("nats.urls", Some("nats.url")),
            ("shutdown.grace", None),
            ("x", None),
        ] {
            assert_eq!(nearest(name, &known), near, "{name}");
        }
    }

    #[test]
    fn distances_count_single_edits() {
        for (left, right, edits) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("abc", "axc", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(left, right), edits, "{left} {right}");
        }
    }
}
