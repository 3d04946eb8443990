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

/// The text without control characters and no longer than [`ERROR_TEXT_BYTES_MAX`]: what an error
/// quotes may be what a publisher wrote.
#[must_use]
pub fn sanitised(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(ERROR_TEXT_BYTES_MAX));
    for character in text.chars() {
        if line.len() + 4 > ERROR_TEXT_BYTES_MAX {
            line.push('…');
            break;
        }
        line.push(if character.is_control() { ' ' } else { character });
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_text_is_one_bounded_line() {
        assert_eq!(sanitised("a\nb\0c\u{1b}[31m"), "a b c [31m");
        assert!(sanitised(&"é".repeat(10_000)).len() <= ERROR_TEXT_BYTES_MAX + 3);
    }
}
