//! Connections, and what a query's failure means.
//!
//! A deadline is kept three times over, each behind the one before it: `statement_timeout` ends the
//! query at the server and leaves the connection usable; the client's own, slightly longer, closes
//! the connection; and `client_connection_check_interval` lets the server notice that.
//!
//! Plans must not depend on statistics: a plan cached while a table was small and then kept is a
//! scan of a table that has grown. So on these connections everything but an index under a nested
//! loop is switched off, and with no choice left the generic plan is the right one and planning is
//! paid for once.
//!
//! What writes runs has the queue locked until its commit, and would keep it locked while the log is
//! written to disk. So the connections that write commit without waiting for the disk, and the next
//! statement waits for it, with nothing locked: before that one is answered nothing is, and what a
//! read over these connections showed is on disk too. Many wait for one write of the log together. A
//! batch that is recorded while no other is waits for the disk in its commit instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnectOptions, PgPoolOptions, PgRow, Postgres};
use sqlx::query::Query;
use sqlx::{PgConnection, PgPool, query};

use super::super::lease::{self, Lease};
use super::super::options::with_grace;
use super::super::{StoreError, StoreOptions, fault};

/// Waits until the log is on disk up to here, everything that was visible before included: a commit
/// that wrote to the log is answered only then.
const FLUSH: &str = "SELECT pg_logical_emit_message(true, 'wakegate', ''),
            set_config('synchronous_commit', current_setting('wakegate.synchronous_commit'), true)";

const PLANS: [(&str, &str); 7] = [
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    // What is switched off is priced prohibitively, and a price is all that jit looks at.
    ("jit", "off"),
    ("default_transaction_isolation", "read committed"),
];

/// How often the server looks whether the client of a running query is still there.
const CONNECTION_CHECK_MS: u32 = 1_000;

/// Prepared statement, with its arguments.
pub(super) type Prepared = Query<'static, Postgres, PgArguments>;

/// The connections of one store.
#[derive(Debug, Clone)]
pub(super) struct Sessions {
    reads: PgPool,
    writes: PgPool,
    /// Records that are under way.
    recording: Arc<AtomicUsize>,
    options: StoreOptions,
}

/// A record that is under way.
pub(super) struct Recording {
    all: Arc<AtomicUsize>,
    /// Whether no other was when it began.
    pub(super) is_alone: bool,
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a query gave no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The query, or the connection under it.
    Query(sqlx::Error),
    /// No connection to be had.
    NoConnection(sqlx::Error, Duration),
    /// The client's own deadline passed.
    TooSlow(&'static str, Duration),
}

impl Sessions {
    pub(super) fn open(target: &PgConnectOptions, options: &StoreOptions) -> Self {
        let reads = pool(target, options.read_deadline, options.read_connections());
        let writes = pool(target, options.record_deadline, options.record_connections());
        Self { reads, writes, recording: Arc::default(), options: *options }
    }

    pub(super) fn record_deadline(&self) -> Duration {
        self.options.record_deadline
    }

    /// Rows of a read, within the reads' deadline.
    pub(super) async fn read(
        &self,
        what: &'static str,
        query: impl Fn() -> Prepared + Send + Sync,
    ) -> Result<Vec<PgRow>, StoreError> {
        self.read_raw(what, query).await.map_err(StoreError::from)
    }

    /// As [`Sessions::read`], for a caller that tells failures apart itself.
    pub(super) async fn read_raw(
        &self,
        what: &'static str,
        query: impl Fn() -> Prepared + Send + Sync,
    ) -> Result<Vec<PgRow>, Failure> {
        rows(&self.reads, self.options.read_deadline, what, query, Answer::Visible).await
    }

    /// Rows of a statement that writes and may be repeated, within the record's deadline. What is
    /// answered is durable, also where the statement only reads: so is read what an answer to
    /// somebody rests on.
    pub(super) async fn write(
        &self,
        what: &'static str,
        query: impl Fn() -> Prepared + Send + Sync,
    ) -> Result<Vec<PgRow>, StoreError> {
        rows(&self.writes, self.options.record_deadline, what, query, Answer::Durable)
            .await
            .map_err(StoreError::from)
    }

    /// Executes once, for what must not be repeated: a broken connection leaves open whether it was
    /// done.
    pub(super) async fn write_once(
        &self,
        what: &'static str,
        query: Prepared,
    ) -> Result<Vec<PgRow>, StoreError> {
        let deadline = self.options.record_deadline;
        let work = async {
            let mut lease = self.lease_for_write().await?;
            let rows = durable(&mut lease, query).await;
            settle(lease, rows).map_err(Failure::Query)
        };
        match tokio::time::timeout(with_grace(deadline), work).await {
            Ok(rows) => Ok(rows?),
            Err(_) => Err(Failure::TooSlow(what, deadline).into()),
        }
    }

    /// For as long as a record is under way.
    pub(super) fn begin_record(&self) -> Recording {
        let others = self.recording.fetch_add(1, Ordering::Relaxed);
        Recording { all: Arc::clone(&self.recording), is_alone: others == 0 }
    }

    /// A connection for a transaction.
    pub(super) async fn lease_for_write(&self) -> Result<Lease<Postgres>, Failure> {
        Lease::acquire(&self.writes)
            .await
            .map_err(|error| Failure::NoConnection(error, self.options.record_deadline))
    }

    /// Most connections that can have died idle before a fresh one is opened.
    pub(super) fn write_connections(&self) -> u32 {
        self.writes.options().get_max_connections()
    }
}

fn pool(target: &PgConnectOptions, deadline: Duration, connections_max: u32) -> PgPool {
    let millis = deadline.as_millis().max(1).to_string();
    let target = target.clone().options(PLANS).options([
        ("statement_timeout", millis.as_str()),
        // A worker that vanished within a transaction must not keep its lane locked.
        ("idle_in_transaction_session_timeout", millis.as_str()),
    ]);
    PgPoolOptions::new()
        .max_connections(connections_max)
        .acquire_timeout(deadline)
        // It would cost a round trip a query; a connection that died idle is found by using it.
        .test_before_acquire(false)
        .after_connect(|connection, _| Box::pin(prepare(connection)))
        .connect_lazy_with(target)
}

/// What cannot be a start-up option, for a server may refuse it.
async fn prepare(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let checked = sqlx::query("SELECT set_config('client_connection_check_interval', $1, false)")
        .bind(CONNECTION_CHECK_MS.to_string())
        .persistent(false)
        .execute(&mut *connection)
        .await;
    match checked {
        // Only some kernels can tell a server that its client is gone; the others go without.
        Ok(_) | Err(sqlx::Error::Database(_)) => {}
        Err(error) => return Err(error),
    }
    // What is answered is durable, or `Recorded` proves nothing: as durable as the server was told
    // to make commits, and never less than on its own disk.
    sqlx::query(
        "SELECT set_config('wakegate.synchronous_commit',
                           coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'),
                           false),
                set_config('synchronous_commit', 'off', false)",
    )
    .persistent(false)
    .execute(&mut *connection)
    .await?;
    Ok(())
}

/// What an answer stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Visible,
    Durable,
}

/// Rows of a statement, once what they rest on is on disk: what it committed, and whatever it saw.
pub(super) async fn durable(
    connection: &mut PgConnection,
    statement: Prepared,
) -> Result<Vec<PgRow>, sqlx::Error> {
    let rows = statement.fetch_all(&mut *connection).await?;
    query(FLUSH).execute(connection).await?;
    Ok(rows)
}

/// Asks once, and again on another connection where the connection proves dead: a server that was
/// restarted leaves a pool full of them.
async fn rows(
    pool: &PgPool,
    deadline: Duration,
    what: &'static str,
    query: impl Fn() -> Prepared + Send + Sync,
    answer: Answer,
) -> Result<Vec<PgRow>, Failure> {
    let work = async {
        let mut dead_max = pool.options().get_max_connections();
        loop {
            let mut lease = Lease::acquire(pool)
                .await
                .map_err(|error| Failure::NoConnection(error, deadline))?;
            let rows = match answer {
                Answer::Visible => query().fetch_all(&mut *lease).await,
                Answer::Durable => durable(&mut lease, query()).await,
            };
            match rows {
                Err(error) if lease::is_broken(&error) && dead_max > 0 => dead_max -= 1,
                rows => return settle(lease, rows).map_err(Failure::Query),
            }
        }
    };
    match tokio::time::timeout(with_grace(deadline), work).await {
        Ok(answer) => answer,
        Err(_) => Err(Failure::TooSlow(what, deadline)),
    }
}

/// Gives the connection back unless it broke.
pub(super) fn settle<T>(
    lease: Lease<Postgres>,
    answer: Result<T, sqlx::Error>,
) -> Result<T, sqlx::Error> {
    match &answer {
        Err(error) if lease::is_broken(error) => drop(lease),
        _ => lease.give_back(),
    }
    answer
}

impl Failure {
    /// Whether the server answered with this SQLSTATE.
    pub(super) fn has_code(&self, code: &str) -> bool {
        matches!(self, Self::Query(error) if sqlstate(error).as_deref() == Some(code))
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

/// The SQLSTATE, where the server answered.
pub(super) fn sqlstate(error: &sqlx::Error) -> Option<String> {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.map(std::borrow::Cow::into_owned)
}

/// Whose fault: 22 (data), 54 (limits) and 23 (constraints; those that are expected are not errors
/// here) are the request's, and so is what cannot even be encoded; everything else is the server's.
pub(super) fn classify(error: &sqlx::Error) -> StoreError {
    match error {
        sqlx::Error::Encode(_) => fault::data(error),
        _ => match sqlstate(error) {
            Some(code) if ["22", "23", "54"].contains(&code.get(..2).unwrap_or_default()) => {
                fault::data(error)
            }
            _ => fault::unavailable(error),
        },
    }
}
