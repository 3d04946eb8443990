//! Futures that may not be there, for one `select!` over whatever is under way.

use std::pin::Pin;

use crate::intake::{BrokerError, Delivery, LaneFeed};

/// A future that is under way, or not.
pub(super) type Awaited<'a, T> = Option<Pin<Box<dyn Future<Output = T> + Send + 'a>>>;

/// The next delivery; never, once the feed is closed.
pub(super) async fn next<F: LaneFeed>(feed: &mut Option<F>) -> Result<Delivery, BrokerError> {
    match feed {
        Some(feed) => feed.next().await,
        None => std::future::pending().await,
    }
}

/// The result of a future that may not be there; never, if it is not.
pub(super) async fn poll_some<T>(future: &mut Awaited<'_, T>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
