//! A private nats-server.
