//! The in-memory store, used in simulations; it passes the same contract suite as the real ones.
