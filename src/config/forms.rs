//! What a setting's text may be, where more than its type has to be looked at.

use std::path::PathBuf;

/// Most bytes of `nats.inbox_prefix`: a subject has to fit into a line of the protocol.
const INBOX_PREFIX_BYTES_MAX: usize = 128;

/// Looked at now, so that a wrong path is told with every other fault.
pub(super) fn file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_file() { Ok(path) } else { Err(format!("{text:?} is no file")) }
}

/// As [`file`].
pub(super) fn directory(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_dir() { Ok(path) } else { Err(format!("{text:?} is no directory")) }
}

/// A subject without wildcards.
pub(super) fn subject(text: &str) -> Result<String, String> {
    let plain = |token: &str| {
        !token.is_empty() && token.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    if text.len() <= INBOX_PREFIX_BYTES_MAX && text.split('.').all(plain) {
        return Ok(text.to_owned());
    }
    Err("wants tokens of letters, digits, _ and -, separated by dots, such as _INBOX".to_owned())
}

/// A JSON string is a TOML string, but for the one control character that JSON leaves as it is.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}

/// `on` or `off`, as it is shown.
#[expect(clippy::unnecessary_wraps, reason = "what is shown of any setting may be nothing")]
pub(super) fn switched(on: bool) -> Option<String> {
    Some(if on { "on" } else { "off" }.to_owned())
}

/// `on` or `off`.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text.trim() {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("wants on or off".to_owned()),
    }
}
