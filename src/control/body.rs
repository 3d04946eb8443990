//! The bytes of a request become its document, or an error that names the field at fault.
//!
//! serde's own errors say the name of a field only where it is unknown or missing; these fields know
//! theirs. A field that nobody knows is an error, for a typo must not change what a request does.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, StringDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer as _, MapAccess,
    Visitor,
};
use serde_json::Value;

use super::error::{ControlError, ErrorCode};
use crate::error_text::sanitised;

/// Most bytes of a request. The longest that is meant, ids and reason escaped, is a tenth of it.
pub const BODY_BYTES_MAX: usize = 64 * 1_024;

/// Reads a request. A body that is empty is an object without fields.
///
/// # Errors
/// [`ControlError`] names the field, where it is about one.
pub fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ControlError> {
    if body.len() > BODY_BYTES_MAX {
        let message = format!("{} bytes, at most {BODY_BYTES_MAX} are read", body.len());
        return Err(ControlError::new(ErrorCode::TooLarge, message));
    }
    let body = if body.is_empty() { &b"{}"[..] } else { body };
    let Object(fields) = serde_json::from_slice(body).map_err(|error| {
        if error.is_data() {
            ControlError::new(ErrorCode::NotAnObject, "a request is a JSON object")
        } else {
            ControlError::new(ErrorCode::NotJson, sanitised(&error.to_string()))
        }
    })?;
    let fields = Fields { left: fields.into_iter(), current: None };
    T::deserialize(MapAccessDeserializer::new(fields)).map_err(|Fault(error)| error)
}

/// Every field of an object, those that are there twice included.
struct Object(Vec<(String, Value)>);

impl<'de> serde::Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Object(fields))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

/// The fields, one after the other; what is wrong with a value is told with its name.
struct Fields {
    left: std::vec::IntoIter<(String, Value)>,
    current: Option<(String, Value)>,
}

impl<'de> MapAccess<'de> for Fields {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        self.current = self.left.next();
        let Some((name, _)) = &self.current else { return Ok(None) };
        let name: StringDeserializer<Fault> = name.clone().into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let (name, value) = self.current.take().unwrap_or_default();
        seed.deserialize(value).map_err(|error| {
            let what = sanitised(&error.to_string());
            Fault(ControlError::of_field(ErrorCode::InvalidField, &name, &what))
        })
    }
}

/// What serde finds wrong, as this module's error.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Fault(ControlError);

impl serde::de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(ControlError::new(ErrorCode::InvalidField, sanitised(&message.to_string())))
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        let what = match known {
            [] => "there is no such field; this request has none".to_owned(),
            known => format!("there is no such field; there are {}", known.join(", ")),
        };
        Self(ControlError::of_field(ErrorCode::UnknownField, field, &what))
    }

    fn missing_field(field: &'static str) -> Self {
        Self(ControlError::of_field(ErrorCode::MissingField, field, "is missing"))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self(ControlError::of_field(ErrorCode::DuplicateField, field, "is there twice"))
    }
}

/// Keeps what a text is parsed to, with the parser's error.
pub(crate) fn parsed<'de, D: Deserializer<'de>, T, E: fmt::Display>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    let text: String = serde::Deserialize::deserialize(deserializer)?;
    parse(&text).map_err(D::Error::custom)
}

/// As [`parsed`], where null is nothing.
pub(crate) fn parsed_if_any<'de, D: Deserializer<'de>, T, E: fmt::Display>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, D::Error> {
    let text: Option<String> = serde::Deserialize::deserialize(deserializer)?;
    text.map(|text| parse(&text).map_err(D::Error::custom)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::documents::{AgentListRequest, HealthRequest, PauseRequest};

    const WHOLE: &str = r#"{"scope":"platform","actor":"ann","reason":"flood"}"#;

    #[test]
    fn what_is_wrong_is_named() {
        let long = format!(r#"{{"scope":"platform","actor":"{}","reason":"r"}}"#, "a".repeat(257));
        for (body, code, field) in [
            ("nonsense", ErrorCode::NotJson, None),
            ("{", ErrorCode::NotJson, None),
            ("\u{feff}{}", ErrorCode::NotJson, None),
            ("[]", ErrorCode::NotAnObject, None),
            ("null", ErrorCode::NotAnObject, None),
            ("7", ErrorCode::NotAnObject, None),
            ("", ErrorCode::MissingField, Some("scope")),
            (r#"{"scope":"platform"}"#, ErrorCode::MissingField, Some("actor")),
            (r#"{"scope":"platform","actor":"ann"}"#, ErrorCode::MissingField, Some("reason")),
            (
                r#"{"scope":"platform","actor":"ann","reson":"x"}"#,
                ErrorCode::UnknownField,
                Some("reson"),
            ),
            (
                r#"{"scope":"platform","actor":"a","actor":"b","reason":"x"}"#,
                ErrorCode::DuplicateField,
                Some("actor"),
            ),
            (r#"{"scope":"galaxy"}"#, ErrorCode::InvalidField, Some("scope")),
            (r#"{"scope":7}"#, ErrorCode::InvalidField, Some("scope")),
            (r#"{"scope":"platform","actor":7}"#, ErrorCode::InvalidField, Some("actor")),
            (r#"{"scope":"platform","actor":null}"#, ErrorCode::InvalidField, Some("actor")),
            (r#"{"scope":"platform","actor":" "}"#, ErrorCode::InvalidField, Some("actor")),
            (&long, ErrorCode::InvalidField, Some("actor")),
            (
                r#"{"scope":"platform","actor":"a\u0000","reason":"r"}"#,
                ErrorCode::InvalidField,
                Some("actor"),
            ),
            (r#"{"mode":"later"}"#, ErrorCode::InvalidField, Some("mode")),
            (r#"{"organization_id":{}}"#, ErrorCode::InvalidField, Some("organization_id")),
        ] {
            let error = read::<PauseRequest>(body.as_bytes()).unwrap_err();
            assert_eq!((error.code, error.field.as_deref()), (code, field), "{body}: {error}");
        }
        assert!(read::<PauseRequest>(WHOLE.as_bytes()).is_ok());
    }

    #[test]
    fn a_body_has_a_length_to_the_byte() {
        let padded = |bytes: usize| format!("{WHOLE}{}", " ".repeat(bytes - WHOLE.len()));
        assert!(read::<PauseRequest>(padded(BODY_BYTES_MAX).as_bytes()).is_ok());
        let error = read::<PauseRequest>(padded(BODY_BYTES_MAX + 1).as_bytes()).unwrap_err();
        assert_eq!(error.code, ErrorCode::TooLarge);
    }

    #[test]
    fn a_request_without_fields_may_be_empty_and_nothing_else() {
        assert!(read::<HealthRequest>(b"").is_ok());
        assert!(read::<HealthRequest>(b"{}").is_ok());
        let error = read::<HealthRequest>(br#"{"a\u202eb":1}"#).unwrap_err();
        assert_eq!(error.code, ErrorCode::UnknownField);
        assert_eq!(error.field.as_deref(), Some("a\u{fffd}b"), "what is shown is clean");
        assert_eq!(read::<HealthRequest>(b"\xff").unwrap_err().code, ErrorCode::NotJson);
    }

    #[test]
    fn what_is_wrong_within_a_field_is_told_of_the_field() {
        for (body, code) in [
            (r#"{"after":{"organization_id":"a"}}"#, ErrorCode::InvalidField),
            (
                r#"{"after":{"organization_id":"a","agent_profile_id":"b","c":1}}"#,
                ErrorCode::InvalidField,
            ),
        ] {
            let error = read::<AgentListRequest>(body.as_bytes()).unwrap_err();
            assert_eq!((error.code, error.field.as_deref()), (code, Some("after")), "{error}");
        }
        assert_eq!(
            read::<AgentListRequest>(br#"{"status":null,"after":null}"#).unwrap().status,
            None
        );
        for limit in ["0", "1001", "-1", "1.5", "\"7\""] {
            let body = format!(r#"{{"limit":{limit}}}"#);
            let error = read::<AgentListRequest>(body.as_bytes()).unwrap_err();
            assert_eq!(error.field.as_deref(), Some("limit"), "{limit}: {error}");
        }
    }

    #[test]
    fn nesting_without_end_is_no_json_and_no_crash() {
        let deep = format!(r#"{{"after":{}}}"#, "[".repeat(30_000));
        assert_eq!(read::<AgentListRequest>(deep.as_bytes()).unwrap_err().code, ErrorCode::NotJson);
    }
}
