//! A lane on a real database, and hands on that database from outside.

use wakegate::store::StoreOptions;
use wakegate::store::postgres::PostgresStore;
use wakegate::store::sqlite::SqliteStore;

use super::outside::Outside;
use super::world::World;

/// One test's world. The database goes when it is dropped.
pub struct Case<S> {
    pub world: World<S>,
    pub outside: Outside,
    _database: Box<dyn std::any::Any + Send>,
}
