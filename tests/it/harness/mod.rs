//! Starts the real servers that the tests run against.

pub(crate) mod command;
pub(crate) mod golden;
pub(crate) mod http;
pub mod nats;
pub mod postgres;
