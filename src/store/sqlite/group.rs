//! One transaction for the batches of several lanes.
//!
//! A file has one writer, and what a commit costs (the log's pages, the disk) is much the same for one
//! batch as for eight, which change many of the same pages. So whoever has written its batch leaves the
//! transaction open for those who wait already, and asks for its turn again behind them: it commits
//! then, unless one of them has. With nobody waiting it is its turn at once, and a batch alone is
//! committed at once.
//!
//! What was written and what was refused is answered after the commit: a refusal may rest on what
//! another batch of the same transaction wrote, which nobody can read before.

use std::sync::Arc;

use sqlx::query;
use sqlx::sqlite::Sqlite;
use tokio::sync::{Mutex, oneshot};

use super::super::lease::Lease;
use super::super::{BatchRecord, RecordError, StoreError};
use super::session::{Sessions, classify};
use super::writes;

/// Batches in a transaction. Not those of all lanes: the others read meanwhile what they decide by, or
/// everybody would read at once and then write at once.
const BATCHES_MAX: usize = 4;

/// Whose turn it is to write, and the transaction that is open.
#[derive(Debug, Clone, Default)]
pub(super) struct Group(Arc<Mutex<Option<Open>>>);

/// A transaction with batches in it. Dropped, nothing of it is there: SQLite undoes it as its connection
/// is closed, and only then are its members told.
struct Open {
    lease: Lease<Sqlite>,
    members: Members,
}

/// Who has a batch in a transaction, and is told that nothing of it is there unless told otherwise.
#[derive(Default)]
struct Members(Vec<oneshot::Sender<Ended>>);

/// How a transaction ended.
#[derive(Debug, Clone)]
enum Ended {
    Committed,
    /// Nothing of it is there, for a reason that lies in another batch.
    Undone,
    /// It may have been committed.
    Unknown(String),
}

/// What became of a batch in a transaction.
enum Written {
    Answered(Result<(), RecordError>),
    /// See [`Ended::Undone`].
    Undone,
}

impl Written {
    fn after(ended: Ended, answer: Result<(), RecordError>) -> Self {
        match ended {
            Ended::Committed => Self::Answered(answer),
            Ended::Undone => Self::Undone,
            Ended::Unknown(error) => Self::Answered(Err(StoreError::Unavailable { error }.into())),
        }
    }
}

impl Group {
    /// Records a batch, with others if others wait.
    pub(super) async fn record(
        &self,
        sessions: &Sessions,
        batch: &BatchRecord,
    ) -> Result<(), RecordError> {
        let _leaves = Leaves(self);
        match self.with_others(sessions, batch).await? {
            Written::Answered(answer) => answer,
            // One that fails costs only itself.
            Written::Undone => self.alone(sessions, batch).await,
        }
    }

    async fn with_others(
        &self,
        sessions: &Sessions,
        batch: &BatchRecord,
    ) -> Result<Written, RecordError> {
        let mut turn = self.0.lock().await;
        let full = turn.take_if(|open| open.members.0.len() >= BATCHES_MAX);
        if let Some(open) = full {
            open.commit().await;
        }
        let open = match turn.take() {
            Some(open) => open,
            None => Open::begin(sessions).await?,
        };
        let (answer, open) = open.write(sessions, batch).await?;
        let Some(mut open) = open else {
            return Ok(Written::Answered(answer));
        };
        let (member, ended) = oneshot::channel();
        open.members.0.push(member);
        *turn = Some(open);
        drop(turn);
        Ok(Written::after(self.ended(ended).await, answer))
    }

    /// Behind all who wait, so that nobody is kept out.
    async fn alone(&self, sessions: &Sessions, batch: &BatchRecord) -> Result<(), RecordError> {
        let mut turn = self.0.lock().await;
        if let Some(open) = turn.take() {
            open.commit().await;
        }
        let (answer, open) = Open::begin(sessions).await?.write(sessions, batch).await?;
        let Some(open) = open else { return answer };
        match open.commit().await {
            Ended::Unknown(error) => Err(StoreError::Unavailable { error }.into()),
            _ => answer,
        }
    }

    /// Waits until the transaction was ended, or it is this one's turn to end it.
    async fn ended(&self, mut ended: oneshot::Receiver<Ended>) -> Ended {
        tokio::select! {
            // A turn that comes after the answer is another transaction's.
            biased;
            ended = &mut ended => ended,
            mut turn = self.0.lock() => {
                if let Some(open) = turn.take() {
                    open.commit().await;
                }
                ended.await
            }
        }
        .unwrap_or_else(|_| {
            Ended::Unknown("the transaction was given up as it was committed".to_owned())
        })
    }
}

/// Goes from the group last, after its own turn and its own place in a transaction: one that everybody
/// has left must not keep the file locked until somebody comes.
struct Leaves<'g>(&'g Group);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        // Whoever has the turn ends what is open.
        if let Ok(mut turn) = self.0.0.try_lock() {
            drop(turn.take_if(|open| open.members.0.iter().all(oneshot::Sender::is_closed)));
        }
    }
}

impl Open {
    async fn begin(sessions: &Sessions) -> Result<Self, RecordError> {
        let mut lease = sessions.lease_writer().await?;
        execute(&mut lease, "BEGIN IMMEDIATE").await?;
        Ok(Self { lease, members: Members::default() })
    }

    /// Writes a batch, or nothing of it, and gives the transaction back if it is still open: one that
    /// holds nothing but a batch that was refused is not. An error is that of the whole transaction, which
    /// is gone.
    async fn write(
        mut self,
        sessions: &Sessions,
        batch: &BatchRecord,
    ) -> Result<(Result<(), RecordError>, Option<Self>), RecordError> {
        let is_first = self.members.0.is_empty();
        if !is_first {
            sessions.until_record_deadline(&mut self.lease).await?;
            execute(&mut self.lease, "SAVEPOINT batch").await?;
        }
        let answer = writes::write(&mut self.lease, batch).await;
        match &answer {
            // SQLite itself may have ended the transaction: the statement was interrupted, the disk is
            // full or a read failed.
            Err(RecordError::Store(StoreError::Unavailable { .. })) => return Ok((answer, None)),
            Err(_) if is_first => {
                execute(&mut self.lease, "ROLLBACK").await?;
                self.lease.give_back();
                return Ok((answer, None));
            }
            Err(_) => {
                execute(&mut self.lease, "ROLLBACK TO batch").await?;
                execute(&mut self.lease, "RELEASE batch").await?;
            }
            Ok(()) if is_first => {}
            Ok(()) => execute(&mut self.lease, "RELEASE batch").await?,
        }
        Ok((answer, Some(self)))
    }

    async fn commit(mut self) -> Ended {
        // From here on it is not known until the answer is: whoever is not told has to say so.
        let members = std::mem::take(&mut self.members.0);
        let ended = match query("COMMIT").execute(&mut *self.lease).await {
            Ok(_) => {
                self.lease.give_back();
                Ended::Committed
            }
            Err(error) => Ended::Unknown(classify(&error).to_string()),
        };
        for member in members {
            // One that has gone has no use for it.
            let _ = member.send(ended.clone());
        }
        ended
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for member in self.0.drain(..) {
            let _ = member.send(Ended::Undone);
        }
    }
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open").field("members", &self.members.0.len()).finish_non_exhaustive()
    }
}

async fn execute(lease: &mut Lease<Sqlite>, text: &'static str) -> Result<(), RecordError> {
    query(text).execute(&mut **lease).await.map(drop).map_err(|error| writes::refused(&error))
}
