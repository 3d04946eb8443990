//! The acceptance criteria of the assignment-wake allowance and of the gates around it, by number:
//! `ac_001_05_…` is AC-OFFICE-ASSIGN-RATE-001.5, `tp_03_…` the third line of its test plan. What
//! touches storage runs on SQLite and on PostgreSQL. `docs/criteria.md` maps one to the other.

mod allowance;
mod coalescing;
mod degradation;
mod duplicates;
mod gates;
mod identity;
mod order;
mod payloads;
mod scope;
mod shadow;
mod visibility;

/// Makes of each `async fn name<S: Store>(case: Case<S>)` a test on either database.
macro_rules! on_both_databases {
    ($($name:ident),+ $(,)?) => {
        $(mod $name {
            #[tokio::test]
            async fn on_sqlite() {
                super::$name(crate::harness::case::sqlite().await).await;
            }

            #[tokio::test]
            async fn on_postgres() {
                super::$name(crate::harness::case::postgres().await).await;
            }
        })+
    };
}
use on_both_databases;
