//! Tables in a terminal, JSON lines in a pipe.
//!
//! What is shown is data: ids may hold anything, so what could move the cursor, hide or reorder text
//! is escaped in a table. JSON escapes control characters by itself and is otherwise as it is.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};

use clap::builder::styling::Style;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table as Grid};
use serde::Serialize;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::wake::UtcMicros;

/// Width of a terminal that does not say how wide it is.
const WIDTH: u16 = 80;
/// Narrower than this nothing can be read.
const WIDTH_MIN: u16 = 40;

/// How a command's output looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people, so wide.
    Table {
        /// Columns of the terminal.
        width: u16,
    },
    /// One JSON object a line.
    Json,
}

impl Form {
    /// JSON where it is asked for or standard output is no terminal.
    #[must_use]
    pub fn of_output(json: bool) -> Self {
        if json || !io::stdout().is_terminal() {
            return Self::Json;
        }
        let width = terminal_size::terminal_size().map_or(WIDTH, |(width, _)| width.0);
        Self::Table { width: width.max(WIDTH_MIN) }
    }
}

/// One document as a line of JSON.
#[must_use]
pub fn json_line<T: Serialize>(document: &T) -> String {
    // Documents are maps with text for keys, which always can be written.
    let mut line = serde_json::to_string(document).unwrap_or_default();
    line.push('\n');
    line
}

/// On which side of its column a cell stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Text.
    Left,
    /// Text that nobody could read in parts, such as an instant: others make room for it.
    Whole,
    /// Numbers.
    Right,
}

/// Rows under a head, aligned by display width.
#[derive(Debug)]
pub struct Table {
    grid: Grid,
    sides: Vec<Side>,
}

impl Table {
    /// A table with these columns.
    #[must_use]
    pub fn new(columns: &[(&str, Side)]) -> Self {
        let mut grid = Grid::new();
        grid.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        grid.set_header(columns.iter().map(|(name, _)| *name));
        Self { grid, sides: columns.iter().map(|(_, side)| *side).collect() }
    }

    /// Adds a row. What a cell holds may be anything.
    pub fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.grid.add_row(cells.into_iter().map(|cell| shown(cell.as_ref())));
    }

    /// The table, no wider than this; its head stands out where colours may be used.
    #[must_use]
    pub fn render(mut self, width: u16, colours: bool) -> String {
        self.grid.set_width(width);
        let last = self.sides.len().saturating_sub(1);
        for (index, side) in self.sides.iter().enumerate() {
            if let Some(column) = self.grid.column_mut(index) {
                column.set_padding((0, if index == last { 0 } else { 2 }));
                column.set_cell_alignment(match side {
                    Side::Left | Side::Whole => CellAlignment::Left,
                    Side::Right => CellAlignment::Right,
                });
                if *side == Side::Whole {
                    column.set_constraint(ColumnConstraint::ContentWidth);
                }
            }
        }
        let mut text = String::new();
        for (at, line) in self.grid.lines().enumerate() {
            let line = line.trim_end();
            if at == 0 && colours {
                let bold = Style::new().bold();
                let _ = writeln!(text, "{bold}{line}{bold:#}");
            } else {
                text.push_str(line);
                text.push('\n');
            }
        }
        text
    }
}

/// An instant for a terminal, to the second.
#[must_use]
pub fn seconds(at: UtcMicros) -> String {
    let text = at.to_string();
    text.split_once('.').map_or_else(|| text.clone(), |(seconds, _)| format!("{seconds}Z"))
}

/// A text for a terminal: what could move the cursor, end the line, hide or reorder text is written
/// as an escape. Nothing is `""`, so that it can be seen.
#[must_use]
pub fn shown(text: &str) -> String {
    if text.is_empty() {
        return "\"\"".to_owned();
    }
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            hidden if hidden.is_control() => safe.extend(hidden.escape_default()),
            '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}' => safe.extend(character.escape_unicode()),
            plain => safe.push(plain),
        }
    }
    safe
}

/// Text over as many lines as it takes, each but the first indented and none wider than `width`. It
/// ends between words, and within one only where that alone is too wide for a line.
#[must_use]
pub fn wrapped(text: &str, indent: usize, width: u16) -> String {
    let width = usize::from(width).max(indent + 1);
    let mut lines = String::with_capacity(text.len());
    let mut column = indent;
    for word in text.split(' ') {
        let wide = word.width();
        if column > indent && column + 1 + wide > width {
            next_line(&mut lines, indent);
            column = indent;
        } else if column > indent {
            lines.push(' ');
            column += 1;
        }
        for character in word.chars() {
            let wide = character.width().unwrap_or(0);
            if column > indent && column + wide > width {
                next_line(&mut lines, indent);
                column = indent;
            }
            lines.push(character);
            column += wide;
        }
    }
    lines
}

/// What is said on standard error: where that is a terminal, no wider than it is.
#[must_use]
pub fn remark(text: &str) -> String {
    let errors = io::stderr();
    if !errors.is_terminal() {
        return text.to_owned();
    }
    let width = terminal_size::terminal_size_of(&errors).map_or(WIDTH, |(width, _)| width.0);
    remark_at(text, width.max(WIDTH_MIN))
}

fn remark_at(text: &str, width: u16) -> String {
    let lines = text.lines().map(|line| {
        let bare = line.trim_start();
        let lead = line.len() - bare.len();
        " ".repeat(lead) + &wrapped(bare, lead.max(2), width)
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn next_line(lines: &mut String, indent: usize) {
    lines.push('\n');
    lines.extend(std::iter::repeat_n(' ', indent));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_what_is_seen() {
        let mut table = Table::new(&[("id", Side::Left), ("pending", Side::Right)]);
        table.row(["a", "5"]);
        table.row(["\u{65e5}\u{672c}", "12"]);
        table.row(["e\u{301}x", "7"]);
        assert_eq!(
            table.render(80, false),
            "id    pending\na           5\n\u{65e5}\u{672c}       12\ne\u{301}x          7\n"
        );
    }

    #[test]
    fn what_could_deceive_a_reader_is_escaped() {
        for (text, seen) in [
            ("", "\"\""),
            ("a b", "a b"),
            ("a\u{1b}[31m", "a\\u{1b}[31m"),
            ("a\nb\tc\r\0", "a\\nb\\tc\\r\\u{0}"),
            ("x\u{202e}y\u{200b}\u{2066}", "x\\u{202e}y\\u{200b}\\u{2066}"),
            ("\u{e0041}\u{fe0f}", "\\u{e0041}\\u{fe0f}"),
            ("\u{feff}\u{fff9}", "\\u{feff}\\u{fff9}"),
            ("é", "é"),
        ] {
            assert_eq!(shown(text), seen);
        }
    }

    #[test]
    fn no_line_is_wider_than_asked_and_no_text_is_lost() {
        let long = "reason ".repeat(30);
        let mut table = Table::new(&[("id", Side::Left), ("reason", Side::Left)]);
        table.row(["x".repeat(100).as_str(), long.as_str()]);
        let text = table.render(60, false);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert_eq!(text.matches("reason").count(), 31, "{text}");
        assert_eq!(text.matches('x').count(), 100, "{text}");
    }

    #[test]
    fn an_instant_is_never_broken() {
        let columns = [("id", Side::Left), ("since", Side::Whole), ("reason", Side::Left)];
        let mut table = Table::new(&columns);
        let long = "reason ".repeat(30);
        table.row([&"x".repeat(256), "2026-11-01T12:00:00Z", &long]);
        let text = table.render(80, false);
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
        assert!(text.contains("  2026-11-01T12:00:00Z  "), "{text}");
    }

    #[test]
    fn text_goes_on_in_the_next_line_and_none_of_it_is_lost() {
        assert_eq!(wrapped("aa bb cc", 2, 8), "aa bb\n  cc");
        assert_eq!(wrapped("aa", 2, 8), "aa");
        assert_eq!(wrapped("abcdefgh ij", 2, 6), "abcd\n  efgh\n  ij");
        assert_eq!(wrapped("\u{65e5}\u{672c}\u{8a9e} x", 1, 6), "\u{65e5}\u{672c}\n \u{8a9e} x");
        let long = format!("id \"{}\", end", "x".repeat(256));
        let text = wrapped(&long, 4, 80);
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
        assert_eq!(text.matches('x').count(), 256);
    }

    #[test]
    fn a_remark_keeps_its_lines_and_their_indents() {
        let text = "wakegate: one two\n  do three or four";
        assert_eq!(remark_at(text, 14), "wakegate:\n  one two\n  do three or\n  four");
        assert_eq!(remark_at(text, 80), text);
    }

    #[test]
    fn the_head_stands_out_in_colours_only() {
        let table = || {
            let mut table = Table::new(&[("id", Side::Left)]);
            table.row(["a"]);
            table
        };
        assert_eq!(table().render(80, true), "\u{1b}[1mid\u{1b}[0m\na\n");
        assert_eq!(table().render(80, false), "id\na\n");
    }
}
