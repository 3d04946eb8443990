//! One test binary over real servers: linking takes longer than most of the tests.
#![expect(
    unreachable_pub,
    clippy::format_push_string,
    clippy::needless_pass_by_value,
    clippy::unwrap_used,
    reason = "a test crate has no outside, and a test that cannot go on says where"
)]

mod audit_contract;
mod broker;
mod capacity;
mod cli;
mod control;
mod control_store;
mod criteria;
mod explaining;
mod faults;
mod fuzz;
mod harness;
mod history;
mod hostile;
mod limits;
mod messages;
mod ops;
mod pruning;
mod queue_simulation;
mod queue_store;
mod redriving;
mod replicas;
mod runs;
mod schemas;
mod security;
mod serial_model;
mod shell;
mod simulation;
mod store_contract;
mod tailing;
mod terminals;
mod through_servers;
mod tidy;
mod topology;
mod traces;
mod upgrades;
