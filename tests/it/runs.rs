//! Runners over NATS: runs that are claimed, started and ended, on real servers.

pub mod asking;
mod cancelling;
mod ceilings;
mod crashes;
pub mod events;
mod examples;
mod keeping;
mod killed;
mod neighbours;
mod refused;
mod roles;
mod saturated;
mod schemas;
mod statements;
mod verbs;
mod waiting;
