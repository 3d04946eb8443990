//! A time during which something is not done again; longer each time that it is done soon again.

use std::time::Duration;

use tokio::time::Instant;

/// How many times its own length a rest is remembered for.
const FORGIVEN_AFTER: u32 = 8;

/// See above.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rest {
    until: Option<Instant>,
    length: Duration,
}

impl Rest {
    /// Begins: of the shortest length, or, where the last one has not been over for
    /// [`FORGIVEN_AFTER`] times as long as it took, of twice its length, up to the longest.
    pub(super) fn begin(&mut self, shortest: Duration, longest: Duration, now: Instant) {
        let soon = self.until.is_some_and(|until| now < until + self.length * FORGIVEN_AFTER);
        self.length = if soon { (self.length * 2).min(longest) } else { shortest };
        self.until = Some(now + self.length);
    }

    /// When the last one began.
    pub(super) fn begun(&self) -> Option<Instant> {
        self.until.and_then(|until| until.checked_sub(self.length))
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now >= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_done_again_and_again_is_done_ever_more_seldom() {
        let (shortest, longest) = (Duration::from_secs(4), Duration::from_mins(1));
        let mut rest = Rest::default();
        let mut now = Instant::now();
        assert!(rest.is_over(now));
        for seconds in [4, 8, 16, 32, 60, 60] {
            rest.begin(shortest, longest, now);
            now += Duration::from_secs(seconds);
            assert!(!rest.is_over(now - Duration::from_millis(1)), "{seconds}");
            assert!(rest.is_over(now), "{seconds}");
        }
        assert_eq!(rest.begun(), now.checked_sub(longest));
        now += longest * FORGIVEN_AFTER;
        rest.begin(shortest, longest, now);
        assert!(rest.is_over(now + shortest), "forgiven after a while");
    }
}
