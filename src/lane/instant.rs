//! The request instant of a delivery: the stream's timestamp, kept from running backwards.

use std::time::Duration;

use crate::wake::UtcMicros;

/// A step back of the broker's clock up to this is smoothed over: wakes take the lane's last
/// instant. A larger one is taken as it is, and logged.
pub const STEP_BACK_MAX: Duration = Duration::from_mins(1);

/// The instant of the next wake of a lane whose last one was at `last`.
#[must_use]
pub fn request_instant(last: UtcMicros, stored_at: UtcMicros) -> UtcMicros {
    if stored_at < last && last.since(stored_at) < STEP_BACK_MAX { last } else { stored_at }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_of_a_lane_do_not_run_backwards_unless_the_clock_was_set_back() {
        let at = UtcMicros::from_micros;
        for (last, stored_at, expected) in [
            (100_000_000, 100_000_001, 100_000_001),
            (100_000_000, 100_000_000, 100_000_000),
            (100_000_000, 99_999_999, 100_000_000),
            (100_000_000, 40_000_001, 100_000_000),
            (100_000_000, 40_000_000, 40_000_000),
            (0, 5, 5),
        ] {
            assert_eq!(request_instant(at(last), at(stored_at)), at(expected));
        }
    }
}
