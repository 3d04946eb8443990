//! Errors of the database as text that is safe to log, and as one of two answers.

use std::error::Error;
use std::time::Duration;

use super::StoreError;
pub(super) use crate::error_text::one_line;

/// The server, or the way to it, is at fault.
pub(super) fn unavailable(error: &dyn Error) -> StoreError {
    StoreError::Unavailable { error: one_line(error) }
}

/// The request is at fault.
pub(super) fn data(error: &dyn Error) -> StoreError {
    StoreError::Data { error: one_line(error) }
}

/// No answer within the deadline.
pub(super) fn too_slow(what: &str, deadline: Duration) -> StoreError {
    StoreError::Unavailable { error: format!("no answer to {what} within {deadline:?}") }
}

/// No connection within the deadline; what the pool says then names no cause.
pub(super) fn no_connection(deadline: Duration) -> StoreError {
    StoreError::Unavailable {
        error: format!(
            "no connection within {deadline:?}: the server does not answer, or every connection \
             is busy"
        ),
    }
}

/// A number that the database's column cannot hold.
pub(super) fn too_large(what: &str) -> StoreError {
    StoreError::Data { error: format!("{what} is larger than its column can hold") }
}
