//! Real faults under load: servers that are cut off, killed, full or restored from a backup, streams
//! that are purged or made anew, clocks that jump. After each the counts add up exactly, from the
//! stream to the rows to the audit stream (`faults/accounts.rs`).
//!
//! Those that need one wake only are in `through_servers`.

pub mod accounts;
mod load;

mod clocks;
mod handover;
mod kills;
mod lost;
mod network;
mod postgres;
mod restored;
mod streams;
