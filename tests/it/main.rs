//! One test binary over real servers: linking takes longer than most of the tests.

mod audit_contract;
mod broker;
mod cli;
mod criteria;
mod harness;
mod hostile;
mod messages;
mod serial_model;
mod shell;
mod store_contract;
mod through_servers;
mod tidy;
mod topology;
