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
