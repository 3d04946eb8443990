//! What operators look up.

use sqlx::query;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use super::super::StoreError;
use super::super::history::{
    HistoryStore, KeyRow, MergedRow, RefusedRow, RunRow, RunStore, TaskKey,
};
use super::SqliteStore;
use super::reads::{get, get_id, get_instant};
use super::rows::{Prepared, Statement};
use crate::wake::{RunId, UtcMicros, WakeId};

static SHADOWED: Statement = Statement::new(include_str!("history_shadowed.sql"));

/// Later than any instant that a stream can say: the end of the year 9999.
const LATEST: UtcMicros = UtcMicros::from_micros(253_402_300_799_999_999);

fn later(row: &SqliteRow, column: &str) -> Result<Option<UtcMicros>, StoreError> {
    Ok(get::<Option<i64>>(row, column)?.map(UtcMicros::from_micros))
}

fn run(row: &SqliteRow) -> Result<RunRow, StoreError> {
    Ok(RunRow {
        id: get_id(row, "id")?,
        organization_id: get(row, "organization_id")?,
        project_id: get(row, "project_id")?,
        agent_profile_id: get(row, "agent_profile_id")?,
        reason: get(row, "reason")?,
        status: get(row, "status")?,
        task_id: get(row, "task_id")?,
        actor_type: get(row, "actor_type")?,
        actor_id: get(row, "actor_id")?,
        idempotency_key: get(row, "idempotency_key")?,
        coalesced_count: get(row, "coalesced_count")?,
        degraded_reason: get(row, "degraded_reason")?,
        producer: get(row, "producer")?,
        requested_at: get_instant(row, "requested_at")?,
        decided_at: get_instant(row, "decided_at")?,
        claimed_at: later(row, "claimed_at")?,
        finished_at: later(row, "finished_at")?,
    })
}

fn merged(row: &SqliteRow) -> Result<MergedRow, StoreError> {
    Ok(MergedRow {
        wake_id: get_id(row, "wake_id")?,
        run_id: get_id(row, "run_id")?,
        organization_id: get(row, "organization_id")?,
        idempotency_key: get(row, "idempotency_key")?,
        actor_type: get(row, "actor_type")?,
        actor_id: get(row, "actor_id")?,
        requested_at: get_instant(row, "requested_at")?,
        decided_at: get_instant(row, "decided_at")?,
    })
}

pub(super) fn refused(row: &SqliteRow) -> Result<RefusedRow, StoreError> {
    Ok(RefusedRow {
        wake_id: get_id(row, "wake_id")?,
        organization_id: get(row, "organization_id")?,
        task_id: get(row, "task_id")?,
        reason: get(row, "reason")?,
        record: get(row, "record")?,
        requested_at: get_instant(row, "requested_at")?,
    })
}

fn key(row: &SqliteRow) -> Result<KeyRow, StoreError> {
    Ok(KeyRow {
        organization_id: get(row, "organization_id")?,
        idempotency_key: get(row, "idempotency_key")?,
        run_id: get_id(row, "run_id")?,
        requested_at: get_instant(row, "requested_at")?,
    })
}

impl RunStore for SqliteStore {
    async fn run(&self, id: RunId) -> Result<Option<RunRow>, StoreError> {
        let text = include_str!("history_run.sql");
        let read = query(text).bind(id.uuid().hyphenated());
        let rows = self.sessions.read_one("the read of a run", read).await?;
        rows.first().map(run).transpose()
    }

    async fn runs_before(
        &self,
        before: Option<RunId>,
        limit: u32,
    ) -> Result<Vec<RunRow>, StoreError> {
        let before = before.map_or_else(Uuid::max, RunId::uuid);
        let text = include_str!("history_runs.sql");
        let read = query(text).bind(before.hyphenated()).bind(i64::from(limit));
        let rows = self.sessions.read_one("the read of runs", read).await?;
        rows.iter().map(run).collect()
    }

    async fn runs_of_task(
        &self,
        task: &TaskKey,
        before: Option<(UtcMicros, RunId)>,
        limit: u32,
    ) -> Result<Vec<RunRow>, StoreError> {
        let (at, id) = before.map_or((LATEST, Uuid::max()), |(at, id)| (at, id.uuid()));
        let read = query(include_str!("history_runs_of_task.sql"))
            .bind(task.organization_id.clone())
            .bind(task.task_id.clone())
            .bind(at.micros())
            .bind(id.hyphenated())
            .bind(i64::from(limit));
        let rows = self.sessions.read_one("the read of a task's runs", read).await?;
        rows.iter().map(run).collect()
    }
}

impl HistoryStore for SqliteStore {
    async fn merged_wake(&self, id: WakeId) -> Result<Option<MergedRow>, StoreError> {
        let read = query(include_str!("history_merged.sql")).bind(id.uuid().hyphenated());
        let rows = self.sessions.read_one("the read of a merged wake", read).await?;
        rows.first().map(merged).transpose()
    }

    async fn refused_wake(&self, id: WakeId) -> Result<Option<RefusedRow>, StoreError> {
        let read = query(include_str!("history_refused.sql")).bind(id.uuid().hyphenated());
        let rows = self.sessions.read_one("the read of a refused wake", read).await?;
        rows.first().map(refused).transpose()
    }

    async fn shadowed_wakes(&self, ids: &[WakeId]) -> Result<Vec<RefusedRow>, StoreError> {
        let bind = |query: Prepared, _, id: &WakeId| query.bind(id.uuid().hyphenated());
        let rows = self.sessions.read("the read of shadowed wakes", &SHADOWED, ids, bind, None);
        rows.await?.iter().map(refused).collect()
    }

    async fn merged_into(&self, run: RunId, limit: u32) -> Result<Vec<MergedRow>, StoreError> {
        let text = include_str!("history_merged_into.sql");
        let read = query(text).bind(run.uuid().hyphenated()).bind(i64::from(limit));
        let rows = self.sessions.read_one("the read of a run's wakes", read).await?;
        rows.iter().map(merged).collect()
    }

    async fn refused_of_task(
        &self,
        task: &TaskKey,
        limit: u32,
    ) -> Result<Vec<RefusedRow>, StoreError> {
        let read = query(include_str!("history_refused_of_task.sql"))
            .bind(task.organization_id.clone())
            .bind(task.task_id.clone())
            .bind(i64::from(limit));
        let rows = self.sessions.read_one("the read of a task's refusals", read).await?;
        rows.iter().map(refused).collect()
    }

    async fn key(&self, organization_id: &str, name: &str) -> Result<Option<KeyRow>, StoreError> {
        let read = {
            let text = include_str!("history_key.sql");
            query(text).bind(organization_id.to_owned()).bind(name.to_owned())
        };
        let rows = self.sessions.read_one("the read of a key", read).await?;
        rows.first().map(key).transpose()
    }

    async fn keys_between(
        &self,
        organization_id: &str,
        from: &str,
        to: &str,
        limit: u32,
    ) -> Result<Vec<KeyRow>, StoreError> {
        let read = query(include_str!("history_keys.sql"))
            .bind(organization_id.to_owned())
            .bind(from.to_owned())
            .bind(to.to_owned())
            .bind(i64::from(limit));
        let rows = self.sessions.read_one("the read of keys", read).await?;
        rows.iter().map(key).collect()
    }
}
