//! Starts the real servers that the tests run against.

pub mod nats;
pub mod postgres;
