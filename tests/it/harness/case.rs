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

impl<S: wakegate::store::Store> Case<S> {
    async fn of(store: S, outside: Outside, database: Box<dyn std::any::Any + Send>) -> Self {
        Self { world: World::new(store).await, outside, _database: database }
    }
}

/// On SQLite.
pub async fn sqlite() -> Case<SqliteStore> {
    let (directory, url) = super::sqlite::database().await;
    let store = SqliteStore::connect(&url, &StoreOptions::default()).unwrap();
    let pool = sqlx::sqlite::SqlitePool::connect(&url).await.unwrap();
    Case::of(store, Outside::Sqlite(pool), Box::new(directory)).await
}

/// On PostgreSQL.
pub async fn postgres() -> Case<PostgresStore> {
    let database = super::postgres::database().await;
    let store = PostgresStore::connect(&database.url(), &StoreOptions::default()).unwrap();
    let pool = database.pool();
    Case::of(store, Outside::Postgres(pool), Box::new(database)).await
}
