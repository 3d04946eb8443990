//! Starts the real servers that the tests run against.

pub mod command;
pub mod golden;
pub mod http;
pub mod nats;
pub mod postgres;
