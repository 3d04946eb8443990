//! Several workers on one stream and one PostgreSQL: lanes are spread over them, whoever comes and
//! goes, and nothing depends on it.

mod fleet;

mod rolling;
mod spreading;
mod strangers;
