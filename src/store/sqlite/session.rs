//! Connections, and what a query's failure means.
//!
//! SQLite runs in this process, and a query whose future is dropped goes on. So a progress handler
//! with the deadline ends it from within; the busy timeout, a little shorter than the deadline,
//! ends waiting for the file's lock; and the client's own deadline is behind both.

use std::time::{Duration, Instant};

use sqlx::sqlite::{
    Sqlite, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow,
    SqliteSynchronous,
};
use sqlx::{SqlitePool, query};

use super::super::lease::{self, Lease};
use super::super::options::with_grace;
use super::super::{StoreError, StoreOptions, fault};
use super::group::Group;
use super::rows::{Prepared, Statement};

/// Steps of SQLite's machine between two looks at the clock: about a millisecond. The statements
/// that end a transaction take fewer, so that they are never cut short.
const PROGRESS_STEPS: i32 = 20_000;
/// Pages of 4 KiB in the write-ahead log before they are copied into the file. A batch changes some
/// hundred, many of them in every batch; SQLite's own 1,000 would copy and synchronize every second
/// commit.
const CHECKPOINT_PAGES: &str = "8000";
/// Rows that SQLite's thread may be ahead of their reader: a batch's worth, or it stops and starts.
const ROWS_BUFFERED: usize = 1_024;

/// The connections of one store.
#[derive(Debug, Clone)]
pub(super) struct Sessions {
    reads: SqlitePool,
    writer: SqlitePool,
    group: Group,
    options: StoreOptions,
}

/// Why a query gave no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The query, or the file under it.
    Query(sqlx::Error),
    /// No connection to be had.
    NoConnection(sqlx::Error, Duration),
    /// The client's own deadline passed.
    TooSlow(&'static str, Duration),
}

/// What holds for every connection.
pub(super) fn configure(target: SqliteConnectOptions) -> SqliteConnectOptions {
    target
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        // A commit that was answered survives a power cut, or `Recorded` proves nothing.
        .synchronous(SqliteSynchronous::Full)
        .row_buffer_size(ROWS_BUFFERED)
        .pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
}

impl Sessions {
    pub(super) fn open(target: &SqliteConnectOptions, options: &StoreOptions) -> Self {
        // One reader is as fast as many: every commit invalidates what each has cached, and each
        // keeps its own statements and pages in memory.
        let reads = pool(target.clone().pragma("query_only", "ON"), options.read_deadline, 1);
        let writer = pool(target.clone(), options.record_deadline, 1);
        Self { reads, writer, group: Group::default(), options: *options }
    }

    pub(super) fn record_deadline(&self) -> Duration {
        self.options.record_deadline
    }

    /// Rows of a read over items, within the reads' deadline. `bind` binds one item, with its
    /// position, for a row of the statement; `limit` is bound last, where the text has one.
    pub(super) async fn read<T: Sync>(
        &self,
        what: &'static str,
        statement: &Statement,
        items: &[T],
        bind: impl Fn(Prepared, i64, &T) -> Prepared + Send + Sync,
        limit: Option<i64>,
    ) -> Result<Vec<SqliteRow>, StoreError> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let deadline = self.options.read_deadline;
        let work = async {
            let mut lease = lease(&self.reads, deadline).await?;
            let mut all = Vec::new();
            let (mut position, mut left) = (0, items);
            while !left.is_empty() {
                let bind = |query: Prepared, item: &T| {
                    position += 1;
                    bind(query, position - 1, item)
                };
                let (query, later) = match limit {
                    None => statement.over(left, bind),
                    Some(limit) => statement.over_with(left, bind, limit),
                };
                left = later;
                match query.fetch_all(&mut *lease).await {
                    Ok(rows) => all.extend(rows),
                    Err(error) => return Err(settle(lease, error)),
                }
            }
            lease.give_back();
            Ok(all)
        };
        Ok(within(deadline, what, work).await?)
    }

    /// Rows of a read without arguments.
    pub(super) async fn read_plain(
        &self,
        what: &'static str,
        text: &'static str,
    ) -> Result<Vec<SqliteRow>, Failure> {
        within(self.options.read_deadline, what, async {
            let mut lease = lease(&self.reads, self.options.read_deadline).await?;
            match query(text).fetch_all(&mut *lease).await {
                Ok(rows) => {
                    lease.give_back();
                    Ok(rows)
                }
                Err(error) => Err(settle(lease, error)),
            }
        })
        .await
    }

    /// Rows of one read with its arguments.
    pub(super) async fn read_one(
        &self,
        what: &'static str,
        query: Prepared,
    ) -> Result<Vec<SqliteRow>, StoreError> {
        let work = async {
            let mut lease = lease(&self.reads, self.options.read_deadline).await?;
            match query.fetch_all(&mut *lease).await {
                Ok(rows) => {
                    lease.give_back();
                    Ok(rows)
                }
                Err(error) => Err(settle(lease, error)),
            }
        };
        Ok(within(self.options.read_deadline, what, work).await?)
    }

    /// Rows of one statement that writes, within the record's deadline.
    pub(super) async fn write(
        &self,
        what: &'static str,
        query: Prepared,
    ) -> Result<Vec<SqliteRow>, StoreError> {
        let work = async {
            let mut lease = self.lease_writer().await?;
            match query.fetch_all(&mut *lease).await {
                Ok(rows) => {
                    lease.give_back();
                    Ok(rows)
                }
                Err(error) => Err(settle(lease, error)),
            }
        };
        Ok(within(self.options.record_deadline, what, work).await?)
    }

    /// Who records together.
    pub(super) fn group(&self) -> &Group {
        &self.group
    }

    /// Gives whoever takes the writer over the time of a record.
    pub(super) async fn until_record_deadline(
        &self,
        lease: &mut Lease<Sqlite>,
    ) -> Result<(), Failure> {
        end_at(lease, Instant::now() + self.options.record_deadline).await
    }

    /// The one connection that writes.
    pub(super) async fn lease_writer(&self) -> Result<Lease<Sqlite>, Failure> {
        lease(&self.writer, self.options.record_deadline).await
    }
}

fn pool(target: SqliteConnectOptions, deadline: Duration, connections_max: u32) -> SqlitePool {
    SqlitePoolOptions::new()
        .max_connections(connections_max)
        .acquire_timeout(deadline)
        .test_before_acquire(false)
        .connect_lazy_with(target.busy_timeout(deadline * 3 / 4))
}

/// A connection whose statements end at the deadline.
async fn lease(pool: &SqlitePool, deadline: Duration) -> Result<Lease<Sqlite>, Failure> {
    let end = Instant::now() + deadline;
    let mut lease =
        Lease::acquire(pool).await.map_err(|error| Failure::NoConnection(error, deadline))?;
    end_at(&mut lease, end).await?;
    Ok(lease)
}

async fn end_at(lease: &mut Lease<Sqlite>, end: Instant) -> Result<(), Failure> {
    let mut handle = lease.lock_handle().await.map_err(Failure::Query)?;
    handle.set_progress_handler(PROGRESS_STEPS, move || Instant::now() < end);
    Ok(())
}

/// Gives the connection back unless it broke.
fn settle(lease: Lease<Sqlite>, error: sqlx::Error) -> Failure {
    if !lease::is_broken(&error) {
        lease.give_back();
    }
    Failure::Query(error)
}

async fn within<T>(
    deadline: Duration,
    what: &'static str,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(with_grace(deadline), work).await {
        Ok(answer) => answer,
        Err(_) => Err(Failure::TooSlow(what, deadline)),
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Query(error) => classify(&error),
            Failure::NoConnection(sqlx::Error::PoolTimedOut, deadline) => {
                fault::no_connection(deadline)
            }
            Failure::NoConnection(error, _) => fault::unavailable(&error),
            Failure::TooSlow(what, deadline) => fault::too_slow(what, deadline),
        }
    }
}

/// SQLite's primary result code.
fn primary_code(error: &sqlx::Error) -> Option<u32> {
    let code = error.as_database_error()?.code()?;
    code.parse::<u32>().ok().map(|extended| extended & 0xff)
}

/// Whether somebody else holds the file's lock.
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    matches!(primary_code(error), Some(5 | 6))
}

/// Whether a row with this key is there already: `SQLITE_CONSTRAINT_PRIMARYKEY` or `_UNIQUE`.
pub(super) fn is_taken(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    matches!(code.as_deref(), Some("1555" | "2067"))
}

/// Whose fault: too big (18), a constraint (19; those that are expected are not errors here), a type
/// mismatch (20) and a value out of range (25) are the request's, and so is what cannot even be
/// encoded; everything else is the file's.
pub(super) fn classify(error: &sqlx::Error) -> StoreError {
    match (error, primary_code(error)) {
        (sqlx::Error::Encode(_), _) | (_, Some(18 | 19 | 20 | 25)) => fault::data(error),
        _ => fault::unavailable(error),
    }
}
