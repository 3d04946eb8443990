//! PostgreSQL 15 and newer.
//!
//! Reads and records use separate pools, so that neither waits behind the other. Every look-up is
//! driven by an array and an index: see `postgres/session.rs` for why its plan cannot turn into a scan.

mod columns;
mod control;
mod facts;
mod history;
mod limits;
mod prune;
mod queue;
mod reads;
mod redrive;
mod room;
mod runners;
mod session;
mod shadowed;
mod timestamp;
mod writes;

use std::collections::HashMap;
use std::str::FromStr as _;
use std::sync::LazyLock;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection, Row as _};

use self::session::Sessions;
use super::facts::{FactsAnswer, FactsQuery};
use super::migrations::migrations;
use super::{
    BatchRecord, CountWindow, Database, LaneCursor, LaneKey, MigrateError, RecordError, Recorded,
    RoomQuery, SchemaState, Store, StoreError, StoreOptions, UrlError, fault,
};
use crate::admission::Shadowed;
use crate::admission::decision::PriorOutcome;
use crate::admission::facts::{
    AgentStatus, CountedRuns, KeySightings, Pauses, QueuedRuns, Room, Scoped,
};
use crate::wake::{AgentId, IdempotencyKey, OrganizationId, Wake, WakeId};

static MIGRATIONS: LazyLock<sqlx::migrate::Migrator> = migrations!("postgres");

/// A store in PostgreSQL. Clones share its connections.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    target: PgConnectOptions,
    sessions: Sessions,
}

impl PostgresStore {
    /// Names a database. Nothing is connected yet: a server that is not up is found by the first
    /// call, which says so and can be repeated.
    ///
    /// To be called within a tokio runtime.
    ///
    /// # Errors
    /// [`UrlError`] where `url` is no `postgres://` URL.
    pub fn connect(url: &str, options: &StoreOptions) -> Result<Self, UrlError> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(UrlError { error: "it does not begin with postgres://".to_owned() });
        }
        let target = PgConnectOptions::from_str(url)
            .map_err(|error| UrlError { error: fault::one_line(&error) })?
            .application_name("wakegate");
        let sessions = Sessions::open(&target, options);
        Ok(Self { target, sessions })
    }
}

async fn migrate_on(connection: &mut PgConnection) -> Result<(), MigrateError> {
    let listed =
        sqlx::query(include_str!("postgres/read_schema.sql")).fetch_all(&mut *connection).await;
    let state = state_of(listed.map_err(session::Failure::Query))?;
    if let SchemaState::Newer { .. } | SchemaState::Unfinished { .. } = state {
        return Err(MigrateError::Schema(state));
    }
    MIGRATIONS.run_direct(None, connection, false).await.map_err(|error| match error {
        sqlx::migrate::MigrateError::Execute(error)
        | sqlx::migrate::MigrateError::ExecuteMigration(error, _) => {
            MigrateError::Store(fault::unavailable(&error))
        }
        other => MigrateError::History { error: fault::one_line(&other) },
    })
}

/// The statement that asks for all facts of a batch, for whoever looks at its plan.
#[must_use]
pub fn facts_statement() -> &'static str {
    facts::text()
}

/// A table of migrations that is not there is a schema that is not there.
fn state_of(
    listed: Result<Vec<sqlx::postgres::PgRow>, session::Failure>,
) -> Result<SchemaState, StoreError> {
    let rows = match listed {
        Err(failure) if failure.has_code("42P01") => return Ok(SchemaState::Missing),
        listed => listed.map_err(StoreError::from)?,
    };
    let applied = rows
        .iter()
        .map(|row| Ok((row.try_get("version")?, row.try_get("success")?)))
        .collect::<Result<Vec<_>, sqlx::Error>>()
        .map_err(|error| fault::unavailable(&error))?;
    let known = MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0);
    Ok(SchemaState::of(&applied, known))
}

impl Database for PostgresStore {
    async fn schema_state(&self) -> Result<SchemaState, StoreError> {
        let listed = self
            .sessions
            .read_raw("ping", || sqlx::query(include_str!("postgres/read_schema.sql")));
        state_of(listed.await)
    }

    async fn migrate(&self) -> Result<(), MigrateError> {
        let mut connection = PgConnection::connect_with(&self.target)
            .await
            .map_err(|error| MigrateError::Store(fault::unavailable(&error)))?;
        let migrated = migrate_on(&mut connection).await;
        // The lock that keeps rivals out goes with the connection, also where migrating failed.
        drop(connection.close().await);
        migrated
    }
}

impl Store for PostgresStore {
    async fn lane_cursor(&self, lane: &LaneKey) -> Result<LaneCursor, StoreError> {
        writes::lane_cursor(&self.sessions, lane).await
    }

    async fn read_identity(
        &self,
        wakes: &[WakeId],
    ) -> Result<HashMap<WakeId, PriorOutcome>, StoreError> {
        reads::identity(&self.sessions, wakes).await
    }

    async fn read_shadowed(
        &self,
        wakes: &[WakeId],
    ) -> Result<HashMap<WakeId, Shadowed>, StoreError> {
        shadowed::read(&self.sessions, wakes).await
    }

    async fn read_agents(
        &self,
        agents: &[Scoped<AgentId>],
    ) -> Result<HashMap<Scoped<AgentId>, AgentStatus>, StoreError> {
        reads::agents(&self.sessions, agents).await
    }

    async fn read_pauses(&self, organizations: &[OrganizationId]) -> Result<Pauses, StoreError> {
        reads::pauses(&self.sessions, organizations).await
    }

    async fn read_keys(
        &self,
        keys: &[Scoped<IdempotencyKey>],
    ) -> Result<HashMap<Scoped<IdempotencyKey>, KeySightings>, StoreError> {
        reads::keys(&self.sessions, keys).await
    }

    async fn read_queued(&self, wakes: &[&Wake]) -> Result<QueuedRuns, StoreError> {
        reads::queued(&self.sessions, wakes).await
    }

    async fn read_counted(
        &self,
        windows: &[CountWindow],
        runs_max: u32,
    ) -> Result<CountedRuns, StoreError> {
        reads::counted(&self.sessions, windows, runs_max).await
    }

    async fn read_room(&self, query: &RoomQuery) -> Result<Room, StoreError> {
        room::read(&self.sessions, query).await
    }

    async fn read_facts(&self, asked: &FactsQuery<'_>) -> Option<FactsAnswer> {
        facts::read(&self.sessions, asked).await.ok().flatten()
    }

    async fn record(&self, batch: &BatchRecord) -> Result<Recorded, RecordError> {
        writes::record(&self.sessions, batch).await
    }

    async fn begin_isolated(&self, lane: &LaneKey, wake: WakeId) -> Result<u32, StoreError> {
        writes::begin_isolated(&self.sessions, lane, wake).await
    }

    async fn end_isolated(&self, wake: WakeId) -> Result<(), StoreError> {
        writes::end_isolated(&self.sessions, wake).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.schema_state().await?.ready()
    }
}
