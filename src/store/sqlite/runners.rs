//! What runners and keepers ask beside the queue: see [`crate::store::runners`].

use sqlx::sqlite::{Sqlite, SqliteRow};
use sqlx::{Row as _, query};

use super::super::control::unknown;
use super::super::queue::{Held, MovedRun, RunStatus};
use super::super::runners::{Cancellation, HeldRun, RunnerStore};
use super::super::{StoreError, fault};
use super::SqliteStore;
use crate::wake::{OrganizationId, RunId, UtcMicros};

fn get<'r, T>(row: &'r SqliteRow, column: &str) -> Result<T, StoreError>
where
    T: sqlx::Decode<'r, Sqlite> + sqlx::Type<Sqlite>,
{
    row.try_get(column).map_err(|error| fault::unavailable(&error))
}

fn held_run(row: &SqliteRow) -> Result<HeldRun, StoreError> {
    let requested_at: Option<i64> = get(row, "cancel_requested_at")?;
    let cancel = match requested_at {
        None => None,
        Some(at) => Some(Cancellation {
            requested_at: UtcMicros::from_micros(at),
            actor: get(row, "cancel_actor")?,
            reason: get(row, "cancel_reason")?,
        }),
    };
    Ok(HeldRun { payload: get(row, "payload")?, cancel })
}

fn moved(row: &SqliteRow) -> Result<MovedRun, StoreError> {
    Ok(MovedRun {
        run_id: RunId::from(get::<uuid::fmt::Hyphenated>(row, "id")?.into_uuid()),
        organization_id: OrganizationId::parse(get(row, "organization_id")?)
            .map_err(|_| unknown("a run has an organization"))?,
        status: RunStatus::parse(get(row, "status")?)
            .ok_or_else(|| unknown("a run has a status"))?,
    })
}

impl RunnerStore for SqliteStore {
    async fn held_run(&self, held: &Held) -> Result<Option<HeldRun>, StoreError> {
        let read = query(include_str!("runners/held_run.sql"))
            .bind(held.run_id.uuid().hyphenated())
            // No claim has a greater one.
            .bind(i64::try_from(held.fencing_token).unwrap_or(i64::MAX));
        self.sessions.read_one("a run", read).await?.first().map(held_run).transpose()
    }

    async fn cancel_stopped(
        &self,
        now: UtcMicros,
        runs_max: u32,
    ) -> Result<Vec<MovedRun>, StoreError> {
        let cancel = query(include_str!("runners/cancel_stopped.sql"))
            .bind(now.micros())
            .bind(i64::from(runs_max));
        let rows = self.sessions.write("the end of what is stopped", cancel).await?;
        rows.iter().map(moved).collect()
    }
}
