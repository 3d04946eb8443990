//! Traces: which spans there are, and that exporting them stands in nobody's way.

mod exported;
mod spans;
mod tls;
