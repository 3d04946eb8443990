//! SQLite in WAL mode: one writer, which begins IMMEDIATE, and readers beside it.
//!
//! A deferred transaction that reads and then writes is refused at once whatever the busy timeout;
//! there is none here.

mod control;
mod group;
mod history;
mod limits;
mod prune;
mod queue;
mod reads;
mod redrive;
mod room;
mod rows;
mod runners;
mod session;
mod shadowed;
mod writes;

use std::collections::HashMap;
use std::str::FromStr as _;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{Connection as _, Row as _};

use self::session::{Failure, Sessions};
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

static MIGRATIONS: LazyLock<sqlx::migrate::Migrator> = migrations!("sqlite");

/// Longest that `migrate` waits for a rival to finish.
const MIGRATE_WAIT: Duration = Duration::from_secs(30);
/// Between two attempts, where SQLite answers "busy" at once: while a new file turns to WAL mode.
const MIGRATE_RETRY: Duration = Duration::from_millis(20);

/// A store in a SQLite file. Clones share its connections.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    target: SqliteConnectOptions,
    sessions: Sessions,
}

impl SqliteStore {
    /// Names a file, which is created if it is missing. Nothing is opened yet.
    ///
    /// To be called within a tokio runtime.
    ///
    /// # Errors
    /// [`UrlError`] where `url` is no `sqlite://` URL of a file.
    pub fn connect(url: &str, options: &StoreOptions) -> Result<Self, UrlError> {
        if !url.starts_with("sqlite:") {
            return Err(UrlError { error: "it does not begin with sqlite://".to_owned() });
        }
        if url.contains(":memory:") || url.contains("mode=memory") {
            return Err(UrlError {
                error: "a database in memory is another one for each connection; name a file"
                    .to_owned(),
            });
        }
        let target = SqliteConnectOptions::from_str(url)
            .map_err(|error| UrlError { error: fault::one_line(&error) })?;
        let target = session::configure(target);
        let sessions = Sessions::open(&target, options);
        Ok(Self { target, sessions })
    }

    /// All of it in one transaction that takes the write lock first: SQLite has no other lock that
    /// would keep a rival out.
    async fn migrate_once(&self) -> Result<(), Refusal> {
        let mut connection = SqliteConnection::connect_with(&self.target).await?;
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        let listed = sqlx::query(include_str!("sqlite/read_schema.sql"))
            .fetch_all(&mut *transaction)
            .await
            .map_err(Failure::Query);
        let state = state_of(listed).map_err(|error| Refusal::Final(error.into()))?;
        if let SchemaState::Newer { .. } | SchemaState::Unfinished { .. } = state {
            return Err(Refusal::Final(MigrateError::Schema(state)));
        }
        MIGRATIONS.run_direct(None, &mut *transaction, false).await.map_err(
            |error| match error {
                sqlx::migrate::MigrateError::Execute(error)
                | sqlx::migrate::MigrateError::ExecuteMigration(error, _) => Refusal::from(error),
                other => Refusal::Final(MigrateError::History { error: fault::one_line(&other) }),
            },
        )?;
        transaction.commit().await?;
        Ok(connection.close().await?)
    }
}

enum Refusal {
    Busy,
    Final(MigrateError),
}

impl From<sqlx::Error> for Refusal {
    fn from(error: sqlx::Error) -> Self {
        if session::is_busy(&error) {
            Self::Busy
        } else {
            Self::Final(MigrateError::Store(fault::unavailable(&error)))
        }
    }
}

/// A table of migrations that is not there is a schema that is not there; SQLite has no code of its
/// own for that.
fn state_of(
    listed: Result<Vec<sqlx::sqlite::SqliteRow>, Failure>,
) -> Result<SchemaState, StoreError> {
    let rows = match listed {
        Err(Failure::Query(error)) if error.to_string().contains("no such table") => {
            return Ok(SchemaState::Missing);
        }
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

impl Database for SqliteStore {
    async fn schema_state(&self) -> Result<SchemaState, StoreError> {
        state_of(self.sessions.read_plain("ping", include_str!("sqlite/read_schema.sql")).await)
    }

    async fn migrate(&self) -> Result<(), MigrateError> {
        let end = Instant::now() + MIGRATE_WAIT;
        loop {
            match self.migrate_once().await {
                Err(Refusal::Busy) if Instant::now() < end => {
                    tokio::time::sleep(MIGRATE_RETRY).await;
                }
                Err(Refusal::Busy) => {
                    return Err(MigrateError::Store(fault::too_slow("migrate", MIGRATE_WAIT)));
                }
                Err(Refusal::Final(error)) => return Err(error),
                Ok(()) => return Ok(()),
            }
        }
    }
}

impl Store for SqliteStore {
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
