//! Limits in layers and gate 6: `seed_003_…` and `seed_004_…` are what the seeds want shown, by name.
//! What touches storage runs on SQLite and on PostgreSQL.

mod ceilings;
mod intake;
mod lanes;
mod layers;
mod operators;
mod prefetch;
mod worker;

use serde_json::Value;
use wakegate::admission::limits::{Ceilings, Dimension};
use wakegate::config::Config;
use wakegate::store::Store;

use crate::harness::outside::Outside;
use crate::harness::world::{Published, SECOND, T0, World, mutation};

/// Makes of each `async fn name<S: Store>(case: Case<S>)` a test on either database.
macro_rules! on_both_databases {
    ($($name:ident),+ $(,)?) => {
        $(mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                super::$name(crate::harness::case::sqlite().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                super::$name(crate::harness::case::postgres().await).await;
            }
        })+
    };
}
use on_both_databases;

/// The defaults, with these ceilings instead.
fn ceilings(of: &[(Dimension, u32)]) -> Ceilings {
    of.iter().fold(Config::default().limits.ceilings, |ceilings, (dimension, ceiling)| {
        ceilings.with(*dimension, *ceiling)
    })
}

fn limit<S: Store>(world: &mut World<S>, of: &[(Dimension, u32)]) {
    world.bench.options.ceilings = Some(ceilings(of));
}

/// The `i`-th wake: a person assigns a task of its own, a minute after the one before, so that it
/// joins none.
fn wake(i: i64) -> Published {
    mutation(T0 + i * 60 * SECOND, &format!("t{i}"), "", "builder", Value::from(i))
}

/// What an organization has set: columns and values.
async fn own_limits(outside: &Outside, organization: &str, limits: &[(&str, &str)]) {
    let columns: Vec<&str> = limits.iter().map(|(column, _)| *column).collect();
    let values: Vec<&str> = limits.iter().map(|(_, value)| *value).collect();
    let (columns, values) = (columns.join(", "), values.join(", "));
    outside
        .execute(&format!(
            "DELETE FROM organization_limits WHERE organization_id = '{organization}'; \
             INSERT INTO organization_limits (organization_id, {columns}) \
             VALUES ('{organization}', {values})"
        ))
        .await;
}
