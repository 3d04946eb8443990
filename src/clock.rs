//! The only reader of the wall clock. Decisions never read it: they are made at the stream's
//! instants. It stamps `decided_at` and measures latency.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use crate::wake::UtcMicros;

/// Where the present comes from; injected, so that tests choose it.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    System,
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands still until [`Clock::set`] moves it; clones share it.
    #[must_use]
    pub fn manual(at: UtcMicros) -> Self {
        Self(Source::Manual(Arc::new(AtomicI64::new(at.micros()))))
    }

    /// Moves a manual clock; the machine's clock is left alone.
    pub fn set(&self, at: UtcMicros) {
        if let Source::Manual(micros) = &self.0 {
            micros.store(at.micros(), Ordering::SeqCst);
        }
    }

    /// The present.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the wall clock's one home")]
    pub fn now(&self) -> UtcMicros {
        match &self.0 {
            Source::System => {
                let since_epoch =
                    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                UtcMicros::from_micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
            }
            Source::Manual(micros) => UtcMicros::from_micros(micros.load(Ordering::SeqCst)),
        }
    }
}
