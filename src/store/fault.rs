//! Errors of the database as text that is safe to log, and as one of two answers.

use std::error::Error;
use std::time::Duration;

use super::StoreError;

/// Most characters of an error's text.
const TEXT_CHARS_MAX: usize = 600;

/// A cause chain in one line, bounded and free of control characters: the text may quote what a
/// publisher wrote.
pub(super) fn one_line(error: &dyn Error) -> String {
    let mut chain = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let text = next.to_string();
        // Wrappers often print their cause themselves.
        if !chain.contains(&text) {
            chain.push_str(": ");
            chain.push_str(&text);
        }
        cause = next.source();
    }
    printable(&chain)
}

/// Characters that could end the line, hide or reorder it become U+FFFD.
fn printable(text: &str) -> String {
    let mut line: String = text
        .chars()
        .take(TEXT_CHARS_MAX)
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}' => char::REPLACEMENT_CHARACTER,
            c => c,
        })
        .collect();
    if text.chars().nth(TEXT_CHARS_MAX).is_some() {
        line.push('…');
    }
    line
}

/// The server, or the way to it, is at fault.
pub(super) fn unavailable(error: &dyn Error) -> StoreError {
    StoreError::Unavailable { error: one_line(error) }
}

/// The request is at fault.
pub(super) fn data(error: &dyn Error) -> StoreError {
    StoreError::Data { error: one_line(error) }
}

/// No answer within the deadline.
pub(super) fn too_slow(what: &str, deadline: Duration) -> StoreError {
    StoreError::Unavailable { error: format!("no answer to {what} within {deadline:?}") }
}

/// No connection within the deadline; what the pool says then names no cause.
pub(super) fn no_connection(deadline: Duration) -> StoreError {
    StoreError::Unavailable {
        error: format!(
            "no connection within {deadline:?}: the server does not answer, or every connection \
             is busy"
        ),
    }
}

/// A number that the database's column cannot hold.
pub(super) fn too_large(what: &str) -> StoreError {
    StoreError::Data { error: format!("{what} is larger than its column can hold") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn the_cause_chain_is_one_clean_line() {
        let inner = std::io::Error::other("a\nb\u{0}c\u{202e}d");
        assert_eq!(one_line(&Outer(inner)), "outer: a b\u{fffd}c\u{fffd}d");
    }

    #[test]
    fn long_text_is_cut() {
        let line = one_line(&std::io::Error::other("é".repeat(TEXT_CHARS_MAX + 1)));
        assert_eq!(line.chars().count(), TEXT_CHARS_MAX + 1);
        assert!(line.ends_with('…'));
    }
}
