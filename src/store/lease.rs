//! A pooled connection that goes back to its pool only when its work is known to have ended.
//!
//! A query whose future is dropped goes on at the server, and the next user of the connection waits
//! for it. So whatever is not given back by [`Lease::give_back`] — the deadline passed, the caller
//! itself was dropped — is closed, which ends the query.

use std::ops::{Deref, DerefMut};

use sqlx::Database;
use sqlx::pool::{Pool, PoolConnection};

/// See the module.
pub(super) struct Lease<DB: Database>(Option<PoolConnection<DB>>);

impl<DB: Database> Lease<DB> {
    /// Waits for a connection as long as the pool's own limit says.
    pub(super) async fn acquire(pool: &Pool<DB>) -> Result<Self, sqlx::Error> {
        Ok(Self(Some(pool.acquire().await?)))
    }

    /// The work has ended, well or ill, and the connection can serve again.
    pub(super) fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl<DB: Database> Deref for Lease<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref().expect("a lease holds its connection until it is dropped")
    }
}

impl<DB: Database> DerefMut for Lease<DB> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.0.as_mut().expect("a lease holds its connection until it is dropped")
    }
}

impl<DB: Database> Drop for Lease<DB> {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            // Closed here and now by dropping the socket: a polite goodbye would queue behind the
            // query that is to be ended.
            drop(connection.detach());
        }
    }
}

/// Whether the connection, not the request, failed: a server that was restarted leaves every pooled
/// connection like this, and a read may then try the next one.
pub(super) fn is_broken(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => true,
        // admin_shutdown, crash_shutdown, cannot_connect_now, connection failures
        sqlx::Error::Database(error) => error.code().is_some_and(|code| {
            code.starts_with("08") || matches!(&*code, "57P01" | "57P02" | "57P03" | "25P03")
        }),
        _ => false,
    }
}
