//! A private PostgreSQL cluster, one database a test.
