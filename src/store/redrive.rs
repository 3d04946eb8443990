//! Wakes that operators have published again: what may be, and the record of it.
//!
//! A redrive is recorded before its message is published and finished once it is known to be on the
//! stream: [`crate::redrive`] says why that makes it exact.

use std::future::Future;

use super::StoreError;
use super::control::Change;
use super::history::RefusedRow;
use crate::wake::{UtcMicros, WakeId};

/// A redrive that is to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRedrive {
    /// The wake that is published again.
    pub wake_id: WakeId,
    /// 1, and one more each time it is asked for again.
    pub ordinal: u32,
    /// `Nats-Msg-Id` of what is published.
    pub message_id: String,
    /// `refused` or `rejected`.
    pub outcome: &'static str,
    /// Why it was.
    pub outcome_reason: String,
    /// What is published comes behind this sequence.
    pub after_sequence: u64,
    /// Who has it published, why, and when.
    pub by: Change,
}

/// A redrive as it is on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redrive {
    /// The wake that is published again.
    pub wake_id: WakeId,
    /// 1, and one more each time it was asked for again.
    pub ordinal: u32,
    /// `Nats-Msg-Id` of what is published.
    pub message_id: String,
    /// `refused` or `rejected`.
    pub outcome: String,
    /// Why it was.
    pub outcome_reason: String,
    /// What is published comes behind this sequence.
    pub after_sequence: u64,
    /// Who.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// When it began.
    pub created_at: UtcMicros,
    /// As what it was published; nothing where that is not known.
    pub published: Option<Published>,
}

/// As what a wake was published again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// When that became known.
    pub at: UtcMicros,
    /// Its sequence on the stream.
    pub sequence: u64,
    /// Its id.
    pub wake_id: WakeId,
}

/// What can be redriven, and what was.
pub trait RedriveStore: Send + Sync {
    /// The first `limit` refused wakes whose id is no smaller than this one, in order of ids: of the
    /// instants at which they were stored.
    fn refused_from(
        &self,
        first: WakeId,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<RefusedRow>, StoreError>> + Send;

    /// Every redrive of these wakes, and every one that published one of them.
    fn redrives(
        &self,
        wakes: &[WakeId],
    ) -> impl Future<Output = Result<Vec<Redrive>, StoreError>> + Send;

    /// The last redrive of a wake.
    fn last_redrive(
        &self,
        wake: WakeId,
    ) -> impl Future<Output = Result<Option<Redrive>, StoreError>> + Send;

    /// Records a redrive that is to begin. False where there is one with its ordinal already,
    /// somebody else's or, after an answer that was lost, this one.
    fn insert_redrive(
        &self,
        redrive: &NewRedrive,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Records that it is on the stream; where that is on record already, nothing.
    fn finish_redrive(
        &self,
        wake: WakeId,
        ordinal: u32,
        published: &Published,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Redrives in order of wake and ordinal, each once.
pub(super) fn in_order(mut redrives: Vec<Redrive>) -> Vec<Redrive> {
    redrives.sort_by_key(|redrive| (redrive.wake_id, redrive.ordinal));
    redrives.dedup_by_key(|redrive| (redrive.wake_id, redrive.ordinal));
    redrives
}
