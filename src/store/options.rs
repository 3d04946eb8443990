//! How a store is opened.

use std::time::Duration;

/// Limits of a store. Reads and the record have connections of their own, so that neither waits
/// behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreOptions {
    /// Most connections of one process; at least two are opened when needed: one for the record
    /// and one for reads. SQLite has one of each whatever this says.
    pub connections_max: u32,
    /// Longest that one read may take, waiting for a connection included.
    pub read_deadline: Duration,
    /// Longest that one record may take, waiting for a connection included.
    pub record_deadline: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            connections_max: 16,
            read_deadline: Duration::from_secs(2),
            record_deadline: Duration::from_secs(5),
        }
    }
}

impl StoreOptions {
    /// Half of the connections write, for a lane records one batch at a time while it reads the
    /// facts of no other.
    pub(super) fn record_connections(&self) -> u32 {
        (self.connections_max / 2).max(1)
    }

    /// The rest read.
    pub(super) fn read_connections(&self) -> u32 {
        self.connections_max.saturating_sub(self.record_connections()).max(1)
    }
}

/// What the client grants on top of the deadline that the server keeps, so that in the common case
/// the server's own answer arrives and the connection can be kept.
pub(super) fn with_grace(deadline: Duration) -> Duration {
    deadline + deadline / 10 + Duration::from_millis(50)
}

/// A database URL that names no database wakegate can use: a fault of the configuration.
#[derive(Debug, thiserror::Error)]
#[error("the database URL cannot be used: {error}")]
pub struct UrlError {
    /// Why, without the URL, which may hold a password.
    pub error: String,
}
