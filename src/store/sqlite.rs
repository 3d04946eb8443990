//! SQLite in WAL mode, one writer.
