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
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    const NAMES: [&str; 2] = ["a", "task_id"];

    fn a(text: &str) -> Result<Option<&str>, JsonFault> {
        members(text, &NAMES).map(|[a, _]| a)
    }

    #[test]
    fn the_raw_text_of_a_member_is_found_as_written() {
        let digits = "1".repeat(100_000);
        let long = format!(r#"{{"a":-{digits}.{digits}e+{digits}}}"#);
        for (text, raw) in [
            ("{}", None),
            (r#"{"b":1}"#, None),
            (r#"{"a":1}"#, Some("1")),
            ("\r\n\t {\r\n\t \"a\"\r\n\t :\r\n\t 1.0e5\r\n\t }\r\n\t ", Some("1.0e5")),
            (r#"{"a":1,"b":2,"a":[3 , 4],"c":{"a":5}}"#, Some("[3 , 4]")),
            (r#"{"a":1,"\u0061":2}"#, Some("2")),
            (r#"{"\u0061":2,"a":1}"#, Some("1")),
            (r#"{"a\u0000":1,"a\ud800":2,"\udc00":3,"\ud800\ud800":4}"#, None),
            (r#"{"a":"\u0000\ud800\udc00\udc00"}"#, Some(r#""\u0000\ud800\udc00\udc00""#)),
            (r#"{"A":1}"#, None),
            (&long, Some(&long[5..long.len() - 1])),
        ] {
            assert_eq!(a(text), Ok(raw), "{}", text.get(..80).unwrap_or(text));
        }
    }

    #[test]
    fn what_is_no_object_is_refused_with_the_place() {
        let at = |column| Err(JsonFault::Grammar { line: 1, column });
        for (text, expected) in [
            ("", Err(JsonFault::NoObject)),
            ("null", Err(JsonFault::NoObject)),
            ("[{}]", Err(JsonFault::NoObject)),
            ("\"{}\"", Err(JsonFault::NoObject)),
            ("\u{feff}{}", Err(JsonFault::NoObject)),
            ("\u{a0}{}", Err(JsonFault::NoObject)),
            ("\u{b}{}", Err(JsonFault::NoObject)),
            ("{", Err(JsonFault::Truncated)),
            (r#"{"a"#, Err(JsonFault::Truncated)),
            (r#"{"a":[[["#, Err(JsonFault::Truncated)),
            ("{}{}", at(3)),
            ("{} x", at(4)),
            ("{a:1}", at(2)),
            (r#"{"a":1,}"#, at(8)),
            (r#"{"a":01}"#, at(7)),
            (r#"{"a":NaN}"#, at(6)),
            (r#"{"a":"\x"}"#, at(8)),
            (r#"{"a":"\u12"}"#, at(12)),
            ("{\"b\u{1}\":1}", at(3)),
            ("{\"a\":\"\n\"}", at(6)),
            ("{\n\"a\" 1}", Err(JsonFault::Grammar { line: 2, column: 5 })),
            ("{'a':1}", at(2)),
            ("{\"a\":1}\0", at(8)),
        ] {
            assert_eq!(a(text), expected, "{text:?}");
        }
    }

    #[test]
    fn nesting_of_100_000_levels_is_scanned_on_a_small_stack() {
        const LEVELS: usize = 100_000;
        let scanned = std::thread::Builder::new().stack_size(64 * 1_024).spawn(|| {
            for (open, inner, close) in
                [("[", "", "]"), (r#"{"":"#, "1", "}"), (r#"[{"k":"#, "[]", "}]")]
            {
                let deep = format!("{}{inner}{}", open.repeat(LEVELS), close.repeat(LEVELS));
                let text = format!(r#"{{"x":{deep},"a":{deep},"task_id":"t"}}"#);
                let found = members(&text, &NAMES).expect("any depth is JSON");
                assert_eq!(found, [Some(deep.as_str()), Some(r#""t""#)]);
                assert_eq!(a(&text[..text.len() / 2]), Err(JsonFault::Truncated));
            }
        });
        scanned.expect("a thread").join().expect("no stack overflow");
    }

    #[test]
    fn a_member_is_null_a_text_an_unstorable_string_or_something_else() {
        let text = |text: &str| Held::Text(Cow::Owned(text.to_owned()));
        for (raw, expected) in [
            ("null", Held::Null),
            ("true", Held::Other("a boolean")),
            ("false", Held::Other("a boolean")),
            ("-0", Held::Other("a number")),
            ("[]", Held::Other("an array")),
            ("{}", Held::Other("an object")),
            (r#""""#, text("")),
            (r#""é😀""#, text("é😀")),
            (r#""\"\\\/\b\f\n\r\t\u0041\ud83d\ude00""#, text("\"\\/\u{8}\u{c}\n\r\tA😀")),
            (r#""a\u0000""#, Held::Unstorable(TextFault::Nul)),
            (r#""\\u0000""#, text("\\u0000")),
            (r#""\ud800""#, Held::Unstorable(TextFault::LoneSurrogate)),
            (r#""\udc00""#, Held::Unstorable(TextFault::LoneSurrogate)),
            (r#""\ud800\u0041""#, Held::Unstorable(TextFault::LoneSurrogate)),
            (r#""\ud800\ud800\udc00""#, Held::Unstorable(TextFault::LoneSurrogate)),
        ] {
            assert_eq!(held(raw), expected, "{raw}");
        }
    }

    #[test]
    fn an_embedded_text_keeps_the_escapes_that_no_column_can_hold() {
        for (raw, expected) in [
            (r#""{}""#, "{}"),
            (r#""{\"a\":1}""#, r#"{"a":1}"#),
            (r#""{\"a\":\"\\u0000\"}""#, r#"{"a":"\u0000"}"#),
            (r#""{\"a\":\"\u0000\"}""#, r#"{"a":"\u0000"}"#),
            (r#""{\"a\":\"\uD800\"}""#, r#"{"a":"\uD800"}"#),
            (r#""\udc00\ud83d\ude00\ud83d""#, "\\udc00😀\\ud83d"),
            (r#""\ud83d\ud83d\ude00""#, "\\ud83d😀"),
            (r#""\\\u0000é""#, "\\\\u0000é"),
            (r#""\u0041\u0000\n""#, "A\\u0000\n"),
        ] {
            assert_eq!(embedded(raw), expected, "{raw}");
        }
    }

    /// JSON and nearly JSON, rich in what decides: our names, escapes, duplicates, odd numbers.
    fn nearly_json() -> impl Strategy<Value = String> {
        let token = prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"a\"",
            "\"task_id\"",
            "\"\\u0061\"",
            "\"\\ud800\"",
            "\"\\ud83d\\ude00\"",
            "\"\\u0000\"",
            "\"\u{1}\"",
            "1",
            "-0",
            "01",
            "1e999",
            "1.5E-3",
            "null",
            "true",
            " ",
            "\n",
            "\t",
            "\u{b}",
            "{\"a\":1}",
            "\"a\":",
            "\"a\":{},",
            "é",
        ]);
        let soup = prop::collection::vec(token, 0..12).prop_map(|tokens| tokens.concat());
        prop_oneof![soup.clone(), soup.prop_map(|soup| format!("{{\"a\":{soup}}}"))]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn objects_are_exactly_what_serde_json_calls_so_but_for_what_a_tree_cannot_hold(
            text in nearly_json()
        ) {
            match (members(&text, &NAMES), serde_json::from_str::<Value>(&text)) {
                (Ok([a, _]), Ok(value)) => {
                    let expected = value.as_object().expect("an object").get("a").cloned();
                    let raw = a.map(|raw| serde_json::from_str::<Value>(raw).expect("JSON"));
                    prop_assert_eq!(raw, expected);
                }
                (Err(_), Ok(value)) => prop_assert!(!value.is_object()),
                (Ok(_), Err(error)) => {
                    let error = error.to_string();
                    prop_assert!(
                        ["surrogate", "hex escape", "out of range"].iter().any(|e| error.contains(e)),
                        "{}", error
                    );
                }
                (Err(_), Err(_)) => {}
            }
        }

        #[test]
        fn an_embedded_text_never_holds_a_nul_and_loses_nothing_else(
            parts in prop::collection::vec(prop::sample::select(vec![
                r"\u0000", r"\ud83d", r"\ude00", r"\\", r#"\""#, "u0000", "é", r"\n", "x",
            ]), 0..12)
        ) {
            let raw = format!("\"{}\"", parts.concat());
            let text = embedded(&raw);
            prop_assert!(!text.contains('\0'));
            if let Held::Text(plain) = held(&raw) {
                prop_assert_eq!(text, plain);
            } else {
                prop_assert!(text.contains("\\u"), "{}", text);
                prop_assert_ne!(&*text, raw.as_str());
            }
        }
    }
}
