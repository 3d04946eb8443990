//! How long a lane waits before it tries again. The one home of `backoff`.

use std::time::Duration;

use backoff::ExponentialBackoff;
use backoff::backoff::Backoff as _;
use tokio::time::Instant;

use super::LaneOptions;

/// How much shorter or longer each wait is, as a part of it: lanes that wait for one server do not
/// ask it in step.
pub const JITTER: f64 = 0.5;

/// Delays between attempts: exponential with jitter, without end.
#[derive(Debug)]
pub struct Delays {
    backoff: ExponentialBackoff,
    max: Duration,
    since: Option<Instant>,
}

impl Delays {
    /// As a lane is to wait: longer each time by a factor of 2, up to its longest wait.
    #[must_use]
    pub fn of(options: &LaneOptions) -> Self {
        Self::new(options.hold_backoff_min, options.hold_backoff_max, options.hold_backoff_jitter)
    }

    fn new(min: Duration, max: Duration, jitter: f64) -> Self {
        let mut backoff = ExponentialBackoff {
            initial_interval: min,
            max_interval: max,
            multiplier: 2.0,
            randomization_factor: jitter,
            max_elapsed_time: None,
            ..ExponentialBackoff::default()
        };
        backoff.reset();
        Self { backoff, max, since: None }
    }

    /// The next delay. The first one starts the hold.
    pub fn next_delay(&mut self) -> Duration {
        self.since.get_or_insert_with(Instant::now);
        self.backoff.next_backoff().unwrap_or(self.max)
    }

    /// How long the hold has lasted; zero outside one.
    #[must_use]
    pub fn held_for(&self) -> Duration {
        self.since.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// The hold is over.
    pub fn reset(&mut self) {
        self.backoff.reset();
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_grow_to_their_bound_and_never_end() {
        let mut delays = Delays::new(Duration::from_millis(50), Duration::from_secs(5), JITTER);
        let first = delays.next_delay();
        assert!(first <= Duration::from_millis(75), "{first:?}");
        let longest = (0..200).map(|_| delays.next_delay()).max().unwrap();
        assert!(longest > Duration::from_secs(2) && longest <= Duration::from_millis(7_500));
        delays.reset();
        assert!(delays.next_delay() <= Duration::from_millis(75));
    }

    #[tokio::test(start_paused = true)]
    async fn a_hold_is_measured_from_its_first_delay() {
        let mut delays = Delays::new(Duration::from_millis(50), Duration::from_secs(5), JITTER);
        assert_eq!(delays.held_for(), Duration::ZERO);
        delays.next_delay();
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(delays.held_for(), Duration::from_secs(30));
        delays.reset();
        assert_eq!(delays.held_for(), Duration::ZERO);
    }
}
