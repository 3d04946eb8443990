//! stub
#![allow(missing_docs, unused, clippy::all, clippy::pedantic)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    Nats,
    Database,
    Streams,
    Audit,
    Lane(u32),
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Ok,
    Waiting,
    Failed,
    Standby,
}
#[derive(Debug, Clone)]
pub struct Health;
impl Health {
    pub fn set(&self, _: Component, _: State, _: Option<String>) {}
}
