//! What operators look up: rows by an id, the rows of a task, and runs a page at a time.
//!
//! No statement here reads more than it is asked for: each is one look-up in an index, or the next
//! so many rows of one.

use std::future::Future;

use serde::Serialize;

use super::StoreError;
use crate::wake::{RunId, UtcMicros, WakeId};

/// A row of `runs`, without its payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunRow {
    /// The run.
    pub id: RunId,
    /// The tenant.
    pub organization_id: String,
    /// The project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// The agent.
    pub agent_profile_id: String,
    /// Why.
    pub reason: String,
    /// Where it stands.
    pub status: String,
    /// The task that its payload names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The kind of actor that its payload names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_type: Option<String>,
    /// The actor that its payload names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_id: Option<String>,
    /// Key of the wake that created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// 1, and one more for each wake that joined it.
    pub coalesced_count: i64,
    /// Where a gate could not do its work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded_reason: Option<String>,
    /// Producer of the wake that created it.
    pub producer: String,
    /// Request instant of that wake.
    pub requested_at: UtcMicros,
    /// When it was decided.
    pub decided_at: UtcMicros,
    /// When a runner took it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed_at: Option<UtcMicros>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<UtcMicros>,
}

/// A row of `merged_wakes`, without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedRow {
    /// The wake.
    pub wake_id: WakeId,
    /// The run it joined.
    pub run_id: RunId,
    /// The tenant.
    pub organization_id: String,
    /// Its key.
    pub idempotency_key: Option<String>,
    /// The kind of actor that its payload names.
    pub actor_type: Option<String>,
    /// The actor that its payload names.
    pub actor_id: Option<String>,
    /// Its request instant.
    pub requested_at: UtcMicros,
    /// When it was decided.
    pub decided_at: UtcMicros,
}

/// A row of `refused_wakes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRow {
    /// The wake.
    pub wake_id: WakeId,
    /// The tenant.
    pub organization_id: String,
    /// The task.
    pub task_id: Option<String>,
    /// Why.
    pub reason: String,
    /// The outcome record, JSON.
    pub record: String,
    /// Its request instant.
    pub requested_at: UtcMicros,
}

/// A row of `wake_keys`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// The tenant.
    pub organization_id: String,
    /// The key.
    pub idempotency_key: String,
    /// The run it was first seen with.
    pub run_id: RunId,
    /// When it was first seen.
    pub requested_at: UtcMicros,
}

/// A task within its organization. Either may be any text: what is no id has no rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskKey {
    /// The tenant.
    pub organization_id: String,
    /// The task.
    pub task_id: String,
}

/// Runs, a page at a time.
pub trait RunStore: Send + Sync {
    /// The run with this id.
    fn run(&self, id: RunId) -> impl Future<Output = Result<Option<RunRow>, StoreError>> + Send;

    /// The next `limit` runs below `before` by id, or from the greatest id on, greatest first.
    fn runs_before(
        &self,
        before: Option<RunId>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<RunRow>, StoreError>> + Send;

    /// The next `limit` runs of a task, before an instant and id or from the newest on, newest
    /// first.
    fn runs_of_task(
        &self,
        task: &TaskKey,
        before: Option<(UtcMicros, RunId)>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<RunRow>, StoreError>> + Send;
}

/// What became of wakes that made no run of their own.
pub trait HistoryStore: RunStore {
    /// The merged wake with this id.
    fn merged_wake(
        &self,
        id: WakeId,
    ) -> impl Future<Output = Result<Option<MergedRow>, StoreError>> + Send;

    /// The refused wake with this id.
    fn refused_wake(
        &self,
        id: WakeId,
    ) -> impl Future<Output = Result<Option<RefusedRow>, StoreError>> + Send;

    /// What gates in shadow would have refused of these wakes, with every reason, separated by commas.
    fn shadowed_wakes(
        &self,
        ids: &[WakeId],
    ) -> impl Future<Output = Result<Vec<RefusedRow>, StoreError>> + Send;

    /// The newest `limit` wakes that joined a run, newest first.
    fn merged_into(
        &self,
        run: RunId,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<MergedRow>, StoreError>> + Send;

    /// The newest `limit` refusals of a task, newest first.
    fn refused_of_task(
        &self,
        task: &TaskKey,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<RefusedRow>, StoreError>> + Send;

    /// Where a key was first seen.
    fn key(
        &self,
        organization_id: &str,
        key: &str,
    ) -> impl Future<Output = Result<Option<KeyRow>, StoreError>> + Send;

    /// The first `limit` keys of an organization in `[from, to)`, byte by byte.
    fn keys_between(
        &self,
        organization_id: &str,
        from: &str,
        to: &str,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<KeyRow>, StoreError>> + Send;
}
