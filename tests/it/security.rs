//! What a publisher, a role or a connection may not do, shown on real servers: `docs/security.md`.

mod credentials;
mod database;
pub mod guarded;
mod hostile;
mod raw;
mod roles;
mod secrets;
mod tls;
mod wire;
