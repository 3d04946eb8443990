//! Mistakes, injected where the lane meets its servers.

/// A mistake that somebody could make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// The consumer has no `max_ack_pending`.
    NoPendingLimit,
}
