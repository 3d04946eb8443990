//! Errors as one line of text that may be logged, published and printed.

use std::error::Error;
use std::fmt::Write as _;

/// Longest text of an error, in bytes. A database may quote a whole row in a message.
pub const ERROR_TEXT_BYTES_MAX: usize = 1_024;

/// An error and its causes, joined by `: `, sanitised by [`sanitised`]. A cause that its parent has
/// already said is not said again.
#[must_use]
pub fn one_line(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            let _ = write!(text, ": {said}");
        }
        cause = error.source();
    }
    sanitised(&text)
}

/// The text on one line and no longer than [`ERROR_TEXT_BYTES_MAX`]: what an error quotes may be what
/// a publisher wrote. Characters that could end the line, hide or reorder it become spaces or U+FFFD.
#[must_use]
pub fn sanitised(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(ERROR_TEXT_BYTES_MAX));
    for character in text.chars() {
        if line.len() + 4 > ERROR_TEXT_BYTES_MAX {
            line.push('…');
            break;
        }
        line.push(match character {
            '\n' | '\r' | '\t' => ' ',
            hidden if hidden.is_control() => char::REPLACEMENT_CHARACTER,
            '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}' => char::REPLACEMENT_CHARACTER,
            plain => plain,
        });
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn the_cause_chain_is_one_clean_line() {
        let inner = std::io::Error::other("a\nb\u{0}c\u{202e}d\u{1b}[31m");
        assert_eq!(one_line(&Outer(inner)), "outer: a b\u{fffd}c\u{fffd}d\u{fffd}[31m");
    }

    #[test]
    fn error_text_is_bounded() {
        let long = sanitised(&"é".repeat(10_000));
        assert!(long.len() <= ERROR_TEXT_BYTES_MAX + 3 && long.ends_with('…'));
    }
}
