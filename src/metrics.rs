//! stub
#![allow(missing_docs, unused, clippy::all, clippy::pedantic)]
use crate::admission::*;
use crate::outcome::OutcomeKind;
use crate::wake::KeylessCause;
use crate::wake::decode::RejectReason;
use crate::wake::producer::ProducerClass;
use std::time::Duration;
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldCause {
    Store,
    Audit,
    Broker,
}
impl HoldCause {
    pub fn as_str(self) -> &'static str {
        ""
    }
}
#[derive(Debug, Clone, Copy)]
pub enum Stage {
    Decode,
    Facts,
    Decide,
    Record,
    Audit,
    Settle,
}
#[derive(Debug, Clone, Copy)]
pub enum AllowanceReason {
    AllowanceExhausted,
    CountReadFailed,
    TaskUnattributed,
}
#[derive(Debug, Clone, Copy)]
pub enum Violation {
    ForeignAgentActor,
    OutcomeSubject,
}
#[derive(Debug, Clone)]
pub struct Metrics;
impl Metrics {
    pub fn new() -> Self {
        Metrics
    }
    pub fn wake(&self, _: OutcomeKind, _: ProducerClass) {}
    pub fn refused(&self, _: &'static str) {}
    pub fn rejected(&self, _: RejectReason) {}
    pub fn allowance_acted(&self, _: AllowanceReason) {}
    pub fn deduplicated(&self, _: DuplicateKind) {}
    pub fn keyless(&self, _: KeylessCause) {}
    pub fn contract_violation(&self, _: Violation) {}
    pub fn gate_error(&self, _: GateName) {}
    pub fn lane_hold(&self, _: HoldCause) {}
    pub fn batch_stage(&self, _: Stage, _: Duration) {}
    pub fn batch_wakes(&self, _: usize) {}
    pub fn wake_latency(&self, _: Duration) {}
    pub fn redelivered(&self, _: u64) {}
    pub fn wakes_lost(&self, _: u64) {}
    pub fn audit_publish_failed(&self) {}
    pub fn set_lane_pending(&self, _: u32, _: u64) {}
    pub fn set_lane_oldest_pending(&self, _: u32, _: Duration) {}
    pub fn set_lane_owned(&self, _: u32, _: bool) {}
}
