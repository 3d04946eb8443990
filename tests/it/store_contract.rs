//! What every store promises: written once, run on the one in memory, on SQLite and on PostgreSQL.

mod agreeing;
mod durable;
mod facts;
pub mod given;
mod gone;
mod identity;
mod keys;
mod lanes;
mod opening;
mod operators;
mod payloads;
mod races;
mod refused;
mod room;
pub mod statements;
mod subject;
mod together;
mod windows;

/// Makes of each `async fn name<S: Subject>(subject: S)` a test on every store.
macro_rules! on_every_store {
    ($($name:ident),+ $(,)?) => {
        $(mod $name {
            use wakegate::store::memory::MemoryStore;

            use crate::simulation::store::SimStore;
            use crate::store_contract::subject::{InMemory, OnPostgres, OnSqlite, Subject as _};

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn in_memory() {
                super::$name(InMemory::<MemoryStore>::open().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn in_simulation() {
                super::$name(InMemory::<SimStore>::open().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                super::$name(OnSqlite::open().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                super::$name(OnPostgres::open().await).await;
            }
        })+
    };
}
use on_every_store;
