//! Times as people give them: how long, and since when.

use std::time::Duration;

use crate::wake::UtcMicros;
use crate::wake::instant::parse_rfc_3339;

/// A duration as people write it: a number and `s`, `m`, `h`, `d` or `w`.
///
/// # Errors
/// It is none, or longer than a hundred years.
pub fn duration(text: &str) -> Result<Duration, String> {
    let fault = || "wants a number and s, m, h, d or w, such as 30d".to_owned();
    let unit = text.chars().next_back().ok_or_else(fault)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return Err(fault()),
    };
    let number = &text[..text.len() - unit.len_utf8()];
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(fault());
    }
    let count: u64 = number.parse().map_err(|_| fault())?;
    // A hundred years, so that no instant runs out of either database.
    let whole = count.checked_mul(seconds).filter(|whole| *whole <= 36_525 * 86_400);
    whole.map(Duration::from_secs).ok_or_else(|| "is over 100 years".to_owned())
}

/// An instant as people write it.
///
/// # Errors
/// It is no RFC 3339, or outside of what a database can hold.
pub fn instant(text: &str) -> Result<UtcMicros, String> {
    parse_rfc_3339(text).ok_or_else(|| "wants RFC 3339, such as 2026-11-01T12:00:00Z".to_owned())
}

/// When something begins or ends, as people say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// So long ago.
    Ago(Duration),
    /// Then.
    At(UtcMicros),
}

impl When {
    /// As an argument: `90m`, or `2026-11-01T12:00:00Z`.
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        // Nothing but an instant begins with a whole year.
        if let Some(at) = parse_rfc_3339(text) {
            return Ok(Self::At(at));
        }
        duration(text).map(Self::Ago).map_err(|_| {
            "wants how long ago, such as 90m, 36h or 2d, or RFC 3339, such as \
             2026-11-01T12:00:00Z"
                .to_owned()
        })
    }

    /// The instant.
    #[must_use]
    pub fn before(self, now: UtcMicros) -> UtcMicros {
        match self {
            Self::Ago(long) => now - long,
            Self::At(at) => at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit() {
        for (text, seconds) in [
            ("0s", 0),
            ("90s", 90),
            ("45m", 2_700),
            ("36h", 129_600),
            ("30d", 2_592_000),
            ("2w", 1_209_600),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in
            ["", "d", "30", "-1d", "+1d", "1.5d", "1 d", "30ä", "99999999999999999999d", "101000w"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn since_when_is_a_time_ago_or_an_instant() {
        let now = UtcMicros::from_micros(1_793_534_400_000_000);
        for (text, at) in [
            ("0s", now.to_string()),
            ("90m", "2026-11-01T10:30:00.000000Z".to_owned()),
            ("2026-10-31T12:00:00+02:00", "2026-10-31T10:00:00.000000Z".to_owned()),
        ] {
            assert_eq!(When::parse(text).unwrap().before(now).to_string(), at, "{text}");
        }
        for text in ["", "noon", "2026-10-31", "-5m"] {
            assert!(When::parse(text).unwrap_err().contains("how long ago"), "{text}");
        }
    }
}
