//! Starts the real servers that the tests run against.

pub(crate) mod nats;
pub(crate) mod postgres;
