//! What a publisher, a role or a connection may not do, shown on real servers: `docs/security.md`.

mod wire;
