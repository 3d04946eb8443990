//! The two headers that decoding reads. Whoever can publish chooses them, so each is checked.

use super::decode::OUTCOME_SUBJECT_BYTES_MAX;

/// Where outcomes may be published: nowhere that the worker's own permissions matter.
const OUTCOME_PREFIXES: [&str; 2] = ["_INBOX.", "wake-outcomes."];
/// Bytes of a `traceparent` of version 00: `00-<32>-<16>-<2>`.
const TRACEPARENT_BYTES: usize = 55;
/// Most bytes of a `traceparent` of a version yet to come; the standard names no limit.
const TRACEPARENT_BYTES_MAX: usize = 256;

/// Most bytes of a `tracestate`: what W3C Trace Context asks everybody to pass on at least.
const TRACESTATE_BYTES_MAX: usize = 512;

/// Whether a `Wakegate-Outcome-To` is honoured. The client library would pass empty tokens and
/// wildcards on, and the server cuts the connection over a line that is too long.
pub(super) fn may_take_outcomes(subject: &str) -> bool {
    subject.len() <= OUTCOME_SUBJECT_BYTES_MAX
        && OUTCOME_PREFIXES.iter().any(|prefix| subject.starts_with(prefix))
        && !subject.contains(|c: char| c.is_whitespace() || c.is_control())
        && subject.split('.').all(|token| !matches!(token, "" | "*" | ">"))
}

/// Whether this can be a `tracestate`: printable ASCII of a bounded length. What its vendors put
/// there is theirs.
pub(super) fn is_tracestate(value: &str) -> bool {
    !value.is_empty()
        && value.len() <= TRACESTATE_BYTES_MAX
        && value.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// Whether this is a `traceparent` as W3C Trace Context level 1 has it; a version above 00 may go
/// on after its flags, behind another dash.
pub(super) fn is_traceparent(value: &str) -> bool {
    let hex = |text: &str, length: usize| {
        text.len() == length
            && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
    };
    let zero = |text: &str| text.bytes().all(|byte| byte == b'0');
    if value.len() > TRACEPARENT_BYTES_MAX || !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return false;
    }
    let mut parts = value.splitn(5, '-');
    let (Some(version), Some(trace), Some(parent), Some(flags)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    hex(version, 2)
        && version != "ff"
        && (version != "00" || value.len() == TRACEPARENT_BYTES)
        && hex(trace, 32)
        && !zero(trace)
        && hex(parent, 16)
        && !zero(parent)
        && hex(flags, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_subjects_under_two_prefixes_take_outcomes() {
        let longest = format!("_INBOX.{}", "a".repeat(OUTCOME_SUBJECT_BYTES_MAX - 7));
        let too_long = format!("{longest}a");
        for (subject, honoured) in [
            ("_INBOX.a", true),
            ("_INBOX.a.b.c", true),
            ("wake-outcomes.org", true),
            ("wake-outcomes.a*b", true), // a star within a token is no wildcard
            (longest.as_str(), true),
            (too_long.as_str(), false),
            ("", false),
            ("_INBOX", false),
            ("_INBOX.", false),
            ("_INBOX..a", false),
            ("_INBOX.a.", false),
            ("_INBOX.*", false),
            ("_INBOX.>", false),
            ("wake-outcomes.a.*.b", false),
            ("_INBOX.a b", false),
            ("_INBOX.a\tb", false),
            ("_INBOX.a\r\nPUB x 0", false),
            ("_INBOX.a\0", false),
            ("_INBOX.a\u{2028}", false),
            ("_inbox.a", false),
            ("_INBOXX.a", false),
            (" _INBOX.a", false),
            ("wake-audit.refused.x.y", false),
            ("wakes.task_mutation.-.t", false),
            ("$JS.API.STREAM.DELETE.WAKES", false),
        ] {
            assert_eq!(may_take_outcomes(subject), honoured, "{subject:?}");
        }
    }

    #[test]
    fn a_tracestate_is_short_and_printable() {
        for (value, kept) in [
            ("vendor=a,other=b c".to_owned(), true),
            ("a=1".repeat(170), true),
            ("a=1".repeat(171), false),
            (String::new(), false),
            ("a=\n".to_owned(), false),
            ("a=ä".to_owned(), false),
        ] {
            assert_eq!(is_tracestate(&value), kept, "{value:?}");
        }
    }

    #[test]
    fn a_traceparent_is_of_the_w3c_form() {
        const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        const ZERO_32: &str = "00000000000000000000000000000000";
        let version = |version: &str| format!("{version}-{TRACE}");
        for (value, kept) in [
            (version("00"), true),
            (version("01"), true),
            (version("cc") + "-what-comes.next", true),
            (version("cc") + "-", true),
            (version("cc") + "x", false),
            (version("cc") + "-\u{1}", false),
            (version("cc") + "-" + &"x".repeat(TRACEPARENT_BYTES_MAX), false),
            (version("00") + "-x", false),
            (version("00") + "-", false),
            (version("ff"), false),
            (version("0"), false),
            (version("0A"), false),
            (version("00").to_uppercase(), false),
            (version("00") + " ", false),
            (format!("00-{ZERO_32}-00f067aa0ba902b7-01"), false),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01".to_owned(), false),
            ("00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01".to_owned(), false),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7".to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(is_traceparent(&value), kept, "{value:?}");
        }
    }
}
