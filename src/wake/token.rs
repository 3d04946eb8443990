//! Subject tokens: how an id, which may hold any text, becomes one token of a NATS subject.

use std::borrow::Cow;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// Longest token that an id is turned into, in bytes.
pub const TOKEN_BYTES_MAX: usize = 64;
/// The token of what is absent or empty.
pub const ABSENT: &str = "-";

/// The subject token of an id (contract, "Tokens").
///
/// Ids of ASCII letters, digits, `_` and `-` stand for themselves up to 64 characters; every other
/// byte becomes `=XX`; what is then longer becomes `=h` and 32 hex digits of its SHA-256.
#[must_use]
pub fn token(id: &str) -> Cow<'_, str> {
    if id.is_empty() {
        return Cow::Borrowed(ABSENT);
    }
    if id == ABSENT {
        return Cow::Borrowed("=2D");
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if id.len() <= TOKEN_BYTES_MAX && id.bytes().all(plain) {
        return Cow::Borrowed(id);
    }
    let mut escaped = String::with_capacity(TOKEN_BYTES_MAX);
    for byte in id.bytes() {
        if escaped.len() > TOKEN_BYTES_MAX {
            break;
        }
        if plain(byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "={byte:02X}");
        }
    }
    if escaped.len() <= TOKEN_BYTES_MAX {
        return Cow::Owned(escaped);
    }
    let digest = Sha256::digest(id.as_bytes());
    let mut hashed = String::from("=h");
    for byte in &digest[..16] {
        let _ = write!(hashed, "{byte:02x}");
    }
    Cow::Owned(hashed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_become_tokens_that_no_subject_can_misread() {
        let plain_64 = "a".repeat(64);
        for (id, expected) in [
            ("", "-"),
            ("-", "=2D"),
            ("--", "--"),
            ("task_1-a", "task_1-a"),
            ("a.b", "a=2Eb"),
            ("*", "=2A"),
            (">", "=3E"),
            ("a b\n", "a=20b=0A"),
            ("=", "=3D"),
            ("é", "=C3=A9"),
            (plain_64.as_str(), plain_64.as_str()),
        ] {
            assert_eq!(token(id), expected, "{id:?}");
        }
    }

    #[test]
    fn what_is_longer_than_64_characters_is_hashed() {
        for id in ["a".repeat(65), "é".repeat(11), "*".repeat(256)] {
            let hashed = token(&id);
            assert_eq!(hashed.len(), 34);
            assert!(hashed.starts_with("=h"));
            assert!(hashed[2..].bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
        }
        assert_eq!(token(&"é".repeat(10)).len(), 60, "60 characters still fit");
    }
}
