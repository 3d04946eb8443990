//! PostgreSQL 15 and newer.
