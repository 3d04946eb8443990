//! Subject tokens: how an id, which may hold any text, becomes one token of a subject.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// The token of an id; that of one that is absent is the token of `""`.
pub(crate) fn token(id: &str) -> String {
    match id {
        "" => return "-".to_owned(),
        "-" => return "=2D".to_owned(),
        _ => {}
    }
    let mut escaped = String::new();
    for byte in id.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => escaped.push(char::from(byte)),
            _ => write!(escaped, "={byte:02X}").expect("a string takes everything"),
        }
    }
    if escaped.len() <= 64 {
        return escaped;
    }
    let mut hashed = "=h".to_owned();
    for byte in &Sha256::digest(id)[..16] {
        write!(hashed, "{byte:02x}").expect("a string takes everything");
    }
    hashed
}
