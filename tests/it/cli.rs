//! Filled in by its slice.
