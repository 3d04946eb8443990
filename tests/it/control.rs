//! Operators over NATS and by command, on real servers.

pub mod asking;
mod bounds;
mod commands;
mod discovery;
mod refused;
mod roles;
mod saturated;
pub mod schemas;
mod verbs;
