//! The real command on real servers: a nats-server of the test's own, PostgreSQL and SQLite. What a
//! publisher, an operator and a runner can see of it, and what survives when something dies.

pub mod stage;
pub mod stall;
pub mod story;

mod asking;
mod crashes;
mod faults;
mod handover;
mod holds;
mod hostile;
mod outcomes;
mod shadow;
mod starting;
mod stopping;
mod streams_away;

/// Makes of each `async fn name(dialect: Dialect)` a test on either database.
macro_rules! on_both_databases {
    ($($name:ident),+ $(,)?) => {
        $(mod $name {
            use crate::through_servers::stage::Dialect;

            #[tokio::test]
            async fn on_sqlite() {
                super::$name(Dialect::Sqlite).await;
            }

            #[tokio::test]
            async fn on_postgres() {
                super::$name(Dialect::Postgres).await;
            }
        })+
    };
}
pub(crate) use on_both_databases;
