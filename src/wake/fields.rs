//! The fields of an event's body: found by one scan, read one by one, every fault noted.

use std::fmt;

use super::IdFault;
use super::json::{self, Held, JsonFault, TextFault};

/// One field of a body: its name, and its raw JSON text where it is present.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'a> {
    name: &'static str,
    raw: Option<&'a str>,
}

macro_rules! fields {
    ($($field:ident: $name:literal),+ $(,)?) => {
        /// The fields of both event types; which of them count depends on `type`.
        #[derive(Debug, Clone, Copy)]
        pub(super) struct Fields<'a> {
            $(pub(super) $field: Field<'a>,)+
        }

        impl<'a> Fields<'a> {
            /// Finds the fields in a body.
            pub(super) fn find(body: &'a str) -> Result<Self, JsonFault> {
                let [$($field),+] = json::members(body, &[$($name),+])?;
                Ok(Self { $($field: Field { name: $name, raw: $field }),+ })
            }
        }
    };
}

fields! {
    kind: "type",
    organization_id: "organization_id",
    project_id: "project_id",
    task_id: "task_id",
    acting_agent_id: "acting_agent_id",
    new_assignee: "new_assignee_agent_profile_id",
    assignment_generation: "assignment_generation",
    reason: "reason",
    agent_profile_id: "agent_profile_id",
    idempotency_key: "idempotency_key",
    payload: "payload",
}

/// A field as far as it is a string.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said<T> {
    /// Absent or null.
    Nothing,
    /// `""`.
    Empty,
    /// Something that keeps the limits.
    Value(T),
    /// At fault, and noted.
    Fault,
}

impl<T> Said<T> {
    /// The value; what is absent, null or `""` is none.
    pub(super) fn value(self) -> Option<T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Nothing | Self::Empty | Self::Fault => None,
        }
    }
}

impl<'a> Field<'a> {
    /// The field's raw JSON text.
    pub(super) fn raw(self) -> Option<&'a str> {
        self.raw
    }

    /// Reads an optional string.
    pub(super) fn optional<T>(
        self,
        parse: fn(&str) -> Result<T, IdFault>,
        faults: &mut Faults,
    ) -> Said<T> {
        let fault = match self.raw.map(json::held) {
            None | Some(Held::Null) => return Said::Nothing,
            Some(Held::Text(text)) if text.is_empty() => return Said::Empty,
            Some(Held::Text(text)) => match parse(&text) {
                Ok(value) => return Said::Value(value),
                Err(fault) => FieldFault::Id(fault),
            },
            Some(Held::Unstorable(fault)) => FieldFault::Text(fault),
            Some(Held::Other(found)) => FieldFault::NoString { found },
        };
        faults.note(self.name, fault);
        Said::Fault
    }

    /// Reads a string that must be there and not be empty.
    pub(super) fn required<T>(
        self,
        parse: fn(&str) -> Result<T, IdFault>,
        faults: &mut Faults,
    ) -> Option<T> {
        let fault = match self.optional(parse, faults) {
            Said::Value(value) => return Some(value),
            Said::Fault => return None,
            Said::Empty => FieldFault::Id(IdFault::Empty),
            Said::Nothing if self.raw.is_some() => FieldFault::Null,
            Said::Nothing => FieldFault::Absent,
        };
        faults.note(self.name, fault);
        None
    }

    /// Reads an optional integer from 0 to 2⁶³−1 as a literal of digits alone: `1.0`, `1e3` and
    /// `-0` would each be a second spelling of one occurrence.
    pub(super) fn generation(self, faults: &mut Faults) -> Said<i64> {
        let Some(raw) = self.raw else { return Said::Nothing };
        if matches!(json::held(raw), Held::Null) {
            return Said::Nothing;
        }
        let digits = raw.bytes().all(|byte| byte.is_ascii_digit());
        match raw.parse() {
            Ok(generation) if digits => Said::Value(generation),
            _ => {
                faults.note(self.name, FieldFault::NoGeneration);
                Said::Fault
            }
        }
    }
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum FieldFault {
    #[error("is absent")]
    Absent,
    #[error("is null")]
    Null,
    #[error("is {found}, a string is wanted")]
    NoString { found: &'static str },
    #[error("is no integer from 0 to {} in digits alone", i64::MAX)]
    NoGeneration,
    #[error(transparent)]
    Id(IdFault),
    #[error(transparent)]
    Text(TextFault),
}

/// Everything that is wrong with an event's fields, so that its publisher learns it all at once.
#[derive(Debug, Default)]
pub(super) struct Faults(String);

impl Faults {
    /// Notes what is wrong with a field.
    pub(super) fn note(&mut self, field: &str, fault: impl fmt::Display) {
        self.say(format_args!("`{field}` {fault}"));
    }

    /// Notes a whole sentence.
    pub(super) fn say(&mut self, sentence: impl fmt::Display) {
        let separator = if self.0.is_empty() { "" } else { "; " };
        self.0 = format!("{}{separator}{sentence}", self.0);
    }

    /// Whether nothing is wrong.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In words, each fault separated by a semicolon.
    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// Most bytes of a publisher's text that a fault repeats.
const QUOTED_BYTES_MAX: usize = 64;

/// A publisher's text as a fault may repeat it: shortened, quoted, free of control characters and
/// of marks that change the direction of what follows.
pub(super) fn quoted(text: &str) -> String {
    let shown = &text[..text.floor_char_boundary(QUOTED_BYTES_MAX)];
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("\"{}{more}\"", shown.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_text_is_short_and_cannot_disturb_a_reader() {
        let long = "é".repeat(40);
        let shortened = format!("\"{}…\"", "é".repeat(32));
        for (text, expected) in [
            ("", r#""""#),
            ("task_1", r#""task_1""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("a\0b\n\u{1b}[31m", r#""a\0b\n\u{1b}[31m""#),
            ("\u{202e}abc\u{2066}\u{200f}", r#""\u{202e}abc\u{2066}\u{200f}""#),
            ("😀", "\"😀\""),
            (&long, &shortened),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn a_generation_is_digits_alone() {
        for (raw, expected) in [
            ("0", Said::Value(0)),
            ("7", Said::Value(7)),
            ("9223372036854775807", Said::Value(i64::MAX)),
            ("null", Said::Nothing),
            ("9223372036854775808", Said::Fault),
            ("-1", Said::Fault),
            ("-0", Said::Fault),
            ("1.0", Said::Fault),
            ("1e3", Said::Fault),
            ("1E0", Said::Fault),
            (r#""1""#, Said::Fault),
            ("true", Said::Fault),
            ("[1]", Said::Fault),
        ] {
            let mut faults = Faults::default();
            let field = Field { name: "assignment_generation", raw: Some(raw) };
            let said = field.generation(&mut faults);
            assert_eq!(faults.is_empty(), said != Said::Fault, "{raw}");
            assert_eq!(said, expected, "{raw}");
        }
    }
}
