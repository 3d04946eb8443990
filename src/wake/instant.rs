//! Instants: microseconds since the Unix epoch, UTC.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

const RFC_3339_MICROS: &[BorrowedFormatItem<'static>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");

/// An instant in microseconds since 1970-01-01T00:00:00Z, the resolution of both databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UtcMicros(i64);

impl UtcMicros {
    /// From microseconds since the epoch.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// From nanoseconds since the epoch; what is finer than a microsecond is cut off.
    #[must_use]
    pub fn from_nanos(nanos: i128) -> Self {
        Self(i64::try_from(nanos.div_euclid(1_000)).unwrap_or(i64::MAX))
    }

    /// From the `time` crate's type.
    #[must_use]
    pub fn from_datetime(at: OffsetDateTime) -> Self {
        Self::from_nanos(at.unix_timestamp_nanos())
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// As the `time` crate's type; an instant outside its years becomes the epoch.
    #[must_use]
    pub fn datetime(self) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000)
            .unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }

    /// Time from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// An instant written as RFC 3339, with any offset; what is finer than a microsecond is cut off.
#[must_use]
pub fn parse_rfc_3339(text: &str) -> Option<UtcMicros> {
    let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    Some(UtcMicros::from_datetime(at))
}

impl Add<Duration> for UtcMicros {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl Sub<Duration> for UtcMicros {
    type Output = Self;

    fn sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
    }
}

/// RFC 3339, UTC, six decimals.
impl fmt::Display for UtcMicros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.datetime().format(RFC_3339_MICROS).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}

impl serde::Serialize for UtcMicros {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_print_as_rfc_3339_with_six_decimals() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (1, "1970-01-01T00:00:00.000001Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (1_790_000_000_123_456, "2026-09-21T14:13:20.123456Z"),
        ] {
            assert_eq!(UtcMicros::from_micros(micros).to_string(), text);
        }
    }

    #[test]
    fn nanoseconds_are_cut_off_downwards() {
        assert_eq!(UtcMicros::from_nanos(1_999), UtcMicros::from_micros(1));
        assert_eq!(UtcMicros::from_nanos(-1), UtcMicros::from_micros(-1));
    }
}
