//! A scan of a JSON object's top level that accepts any JSON object.
//!
//! What wakegate reads from a body or a payload it reads here: the raw text of a few members, and
//! then each of them alone. No tree is built, so nothing below the top level can make the reading
//! fail: nesting of any depth, numbers of any length, `\u0000` and lone surrogates pass. That
//! matters because a payload that is no JSON object is out of the allowance's scope.
//!
//! `serde_json` is strict about the grammar while it skips a value, and skips without recursion.
//! Keys are taken as raw values too: read as strings they would refuse lone surrogates, and read
//! as bytes they would let control characters through.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer as _, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Why a text is no JSON object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JsonFault {
    /// It does not begin like an object.
    #[error("does not begin with {{")]
    NoObject,
    /// It ends before the object does.
    #[error("ends before the object does")]
    Truncated,
    /// It breaks the grammar, or goes on after the object.
    #[error("breaks the JSON grammar near line {line}, column {column}")]
    Grammar {
        /// Line of the fault, from 1.
        line: usize,
        /// Byte within the line, give or take the one before the fault.
        column: usize,
    },
}

/// The raw text of each named member of the object in `text`; of members with the same name the
/// last one counts, and a name written with escapes is the name it spells.
///
/// # Errors
/// [`JsonFault`] where `text` is no JSON object from its first to its last byte.
pub fn members<'a, const N: usize>(
    text: &'a str,
    names: &[&str; N],
) -> Result<[Option<&'a str>; N], JsonFault> {
    // Asked first, so that no text which is a huge string or number is read for an error message.
    if !text.trim_start_matches([' ', '\t', '\n', '\r']).starts_with('{') {
        return Err(JsonFault::NoObject);
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let found = json.deserialize_map(TopLevel { names }).map_err(|error| fault(&error))?;
    json.end().map_err(|error| fault(&error))?;
    Ok(found)
}

fn fault(error: &serde_json::Error) -> JsonFault {
    if error.is_eof() {
        return JsonFault::Truncated;
    }
    JsonFault::Grammar { line: error.line(), column: error.column() }
}

struct TopLevel<'n, const N: usize> {
    names: &'n [&'n str; N],
}

impl<'de, const N: usize> Visitor<'de> for TopLevel<'_, N> {
    type Value = [Option<&'de str>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(key) = map.next_key::<&RawValue>()? {
            let value = map.next_value::<&RawValue>()?.get();
            let key = key.get();
            let Some(inner) = unquoted(key) else {
                return Err(A::Error::custom("a key is a string"));
            };
            let named = if inner.contains('\\') {
                // A name that no text can hold, of a lone surrogate, is none of ours.
                let spelled = serde_json::from_str::<String>(key).ok();
                spelled.and_then(|key| self.names.iter().position(|name| *name == key))
            } else {
                self.names.iter().position(|name| *name == inner)
            };
            if let Some(index) = named {
                found[index] = Some(value);
            }
        }
        Ok(found)
    }
}

/// What one member holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held<'a> {
    /// `null`.
    Null,
    /// A string that a text column can hold.
    Text(Cow<'a, str>),
    /// A string that no text column can hold.
    Unstorable(TextFault),
    /// Neither; named with its article, for messages.
    Other(&'static str),
}

/// Why a JSON string is no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TextFault {
    /// U+0000, which no text column of ours holds.
    #[error("holds a NUL")]
    Nul,
    /// Half of a surrogate pair, which is no character.
    #[error("holds a lone surrogate")]
    LoneSurrogate,
}

/// Reads the raw text of one member, as [`members`] gives it.
#[must_use]
pub fn held(raw: &str) -> Held<'_> {
    match raw.as_bytes().first() {
        Some(b'"') => {}
        Some(b'n') => return Held::Null,
        Some(b't' | b'f') => return Held::Other("a boolean"),
        Some(b'[') => return Held::Other("an array"),
        Some(b'{') => return Held::Other("an object"),
        _ => return Held::Other("a number"),
    }
    match text(raw) {
        // Only an escape can put it there: a raw one breaks the grammar.
        Ok(text) if text.contains('\0') => Held::Unstorable(TextFault::Nul),
        Ok(text) => Held::Text(text),
        Err(fault) => Held::Unstorable(fault),
    }
}

/// The text of a JSON string. The grammar was checked when it was found, so what decoding can
/// still refuse is a lone surrogate.
fn text(raw: &str) -> Result<Cow<'_, str>, TextFault> {
    match unquoted(raw) {
        Some(inner) if !inner.contains('\\') => Ok(Cow::Borrowed(inner)),
        _ => serde_json::from_str(raw).map(Cow::Owned).map_err(|_| TextFault::LoneSurrogate),
    }
}

fn unquoted(raw: &str) -> Option<&str> {
    raw.strip_prefix('"')?.strip_suffix('"')
}

/// The JSON text within a JSON string, decoded once. An escape of a NUL or of a lone surrogate
/// stays the escape it is, so that the text can be stored and an object within stays an object.
#[must_use]
pub fn embedded(raw: &str) -> Cow<'_, str> {
    match text(raw) {
        Ok(text) if !text.contains('\0') => text,
        _ => {
            let kept = keeping_unstorable_escapes(raw);
            // Every escape that could fail has become an escaped backslash.
            serde_json::from_str(&kept).map_or(Cow::Borrowed(raw), Cow::Owned)
        }
    }
}

/// `raw` with the backslash doubled where it escapes a NUL or a lone surrogate.
fn keeping_unstorable_escapes(raw: &str) -> String {
    let mut kept = String::with_capacity(raw.len() + 16);
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        kept.push_str(&rest[..at]);
        let escape = &rest[at..];
        let length = match code_unit(escape) {
            None => 2, // a short escape: a backslash and one ASCII character
            Some(0xD800..=0xDBFF)
                if matches!(escape.get(6..).and_then(code_unit), Some(0xDC00..=0xDFFF)) =>
            {
                12
            }
            Some(0 | 0xD800..=0xDFFF) => {
                kept.push('\\');
                6
            }
            Some(_) => 6,
        };
        let (escape, after) = escape.split_at_checked(length).unwrap_or((escape, ""));
        kept.push_str(escape);
        rest = after;
    }
    kept.push_str(rest);
    kept
}

/// The code unit that `text` begins with an escape of.
fn code_unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests;
