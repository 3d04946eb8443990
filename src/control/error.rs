//! What is refused, and why.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use crate::error_text::{one_line, sanitised};
use crate::store::StoreError;

/// What is wrong, for programs: these never change their meaning, and there may be more one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The body is no JSON.
    NotJson,
    /// The body is JSON, but no object.
    NotAnObject,
    /// The body is longer than any request may be.
    TooLarge,
    /// There is no field of this name; nothing was done.
    UnknownField,
    /// The field is there twice.
    DuplicateField,
    /// The field has to be there.
    MissingField,
    /// The field's value is none of its values.
    InvalidField,
    /// There is no such request.
    UnknownVerb,
    /// The agent is not known, and so may run.
    UnknownAgent,
    /// Somebody else has paused it, or for another reason.
    AlreadyPaused,
    /// It is not paused.
    NotPaused,
    /// Another pause than the one named is active.
    PauseChanged,
    /// There is no such run, or it is none of whoever asks.
    UnknownRun,
    /// The run is no longer this claim's: its lease was over, and it went back or was ended.
    LeaseLost,
    /// The run has ended already, and otherwise than is asked for.
    AlreadyEnded,
    /// The run is not queued any more: it is to be cancelled, not withdrawn.
    NotQueued,
    /// The run is to be cancelled: it is not to be started.
    Cancelling,
    /// The subject is of another organization than the body.
    SubjectMismatch,
    /// Too much is asked at once: ask again.
    Busy,
    /// The database does not answer: ask again.
    Unavailable,
}

impl ErrorCode {
    /// As it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotJson => "not_json",
            Self::NotAnObject => "not_an_object",
            Self::TooLarge => "too_large",
            Self::UnknownField => "unknown_field",
            Self::DuplicateField => "duplicate_field",
            Self::MissingField => "missing_field",
            Self::InvalidField => "invalid_field",
            Self::UnknownVerb => "unknown_verb",
            Self::UnknownAgent => "unknown_agent",
            Self::AlreadyPaused => "already_paused",
            Self::NotPaused => "not_paused",
            Self::PauseChanged => "pause_changed",
            Self::UnknownRun => "unknown_run",
            Self::LeaseLost => "lease_lost",
            Self::AlreadyEnded => "already_ended",
            Self::NotQueued => "not_queued",
            Self::Cancelling => "cancelling",
            Self::SubjectMismatch => "subject_mismatch",
            Self::Busy => "busy",
            Self::Unavailable => "unavailable",
        }
    }

    /// The number that tools for NATS services show, after HTTP's.
    #[must_use]
    pub const fn number(self) -> usize {
        match self {
            Self::NotJson
            | Self::NotAnObject
            | Self::UnknownField
            | Self::DuplicateField
            | Self::MissingField
            | Self::InvalidField => 400,
            Self::SubjectMismatch => 403,
            Self::UnknownVerb | Self::UnknownAgent | Self::UnknownRun => 404,
            Self::AlreadyPaused
            | Self::NotPaused
            | Self::PauseChanged
            | Self::LeaseLost
            | Self::AlreadyEnded
            | Self::NotQueued
            | Self::Cancelling => 409,
            Self::TooLarge => 413,
            Self::Busy => 429,
            Self::Unavailable => 503,
        }
    }
}

/// Why a request was refused. Nothing was changed, but for `unavailable`, which leaves it open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, thiserror::Error)]
#[error("{}: {message}", .code.as_str())]
pub struct ControlError {
    /// What, for programs.
    pub code: ErrorCode,
    /// What, for people.
    pub message: String,
    /// The field at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The pause in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_id: Option<String>,
    /// What the run is, where that is in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

impl ControlError {
    /// An error about no field and no pause.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), field: None, pause_id: None, status: None }
    }

    /// An error about one field. The name may be whatever a request says.
    #[must_use]
    pub fn of_field(code: ErrorCode, field: &str, what: &str) -> Self {
        let field = sanitised(field);
        Self { message: format!("{field}: {what}"), field: Some(field), ..Self::new(code, "") }
    }

    /// An error about a pause.
    #[must_use]
    pub fn of_pause(code: ErrorCode, id: &str, message: String) -> Self {
        Self { pause_id: Some(id.to_owned()), ..Self::new(code, message) }
    }

    /// An error about what a run is.
    #[must_use]
    pub fn of_run(code: ErrorCode, status: &str, message: impl Into<String>) -> Self {
        Self { status: Some(status.to_owned()), ..Self::new(code, message) }
    }

    /// As JSON in ASCII, which any header may hold.
    #[must_use]
    pub fn header(&self) -> String {
        let json = serde_json::json!(self).to_string();
        let mut ascii = String::with_capacity(json.len());
        for character in json.chars() {
            if character.is_ascii() && !character.is_ascii_control() {
                ascii.push(character);
                continue;
            }
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(ascii, "\\u{unit:04x}");
            }
        }
        ascii
    }
}

impl From<StoreError> for ControlError {
    fn from(error: StoreError) -> Self {
        Self::new(ErrorCode::Unavailable, one_line(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_written_as_they_are_serialized() {
        for code in [ErrorCode::NotJson, ErrorCode::NotAnObject, ErrorCode::PauseChanged] {
            assert_eq!(serde_json::json!(code), code.as_str());
        }
    }

    #[test]
    fn a_header_is_ascii_and_says_the_same() {
        let error = ControlError::of_pause(
            ErrorCode::AlreadyPaused,
            "p\r\n\u{7f}\u{1F600}é",
            "by Ann\nNats-Service-Error: none".to_owned(),
        );
        let header = error.header();
        assert!(header.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{header}");
        let read: serde_json::Value = serde_json::from_str(&header).unwrap();
        assert_eq!(read, serde_json::json!(error));
    }
}
