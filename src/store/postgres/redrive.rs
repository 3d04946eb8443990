//! Wakes that operators have published again: see [`crate::store::redrive`].

use sqlx::postgres::PgRow;
use sqlx::query;
use uuid::Uuid;

use super::super::StoreError;
use super::super::history::RefusedRow;
use super::super::redrive::{NewRedrive, Published, Redrive, RedriveStore, in_order};
use super::PostgresStore;
use super::history::refused;
use super::reads::{get, get_id, get_instant};
use super::timestamp::Timestamp;
use crate::wake::WakeId;

fn sequence(row: &PgRow, column: &str) -> Result<u64, StoreError> {
    get::<i64>(row, column).map(|sequence| u64::try_from(sequence).unwrap_or(0))
}

fn redrive(row: &PgRow) -> Result<Redrive, StoreError> {
    let published = match get::<Option<Timestamp>>(row, "published_at")? {
        None => None,
        Some(at) => Some(Published {
            at: at.0,
            sequence: sequence(row, "published_sequence")?,
            wake_id: get_id(row, "published_wake_id")?,
        }),
    };
    Ok(Redrive {
        wake_id: get_id(row, "wake_id")?,
        ordinal: u32::try_from(get::<i32>(row, "ordinal")?).unwrap_or(0),
        message_id: get(row, "message_id")?,
        outcome: get(row, "outcome")?,
        outcome_reason: get(row, "outcome_reason")?,
        after_sequence: sequence(row, "after_sequence")?,
        actor: get(row, "actor")?,
        reason: get(row, "reason")?,
        created_at: get_instant(row, "created_at")?,
        published,
    })
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn ordinal(ordinal: u32) -> i32 {
    i32::try_from(ordinal).unwrap_or(i32::MAX)
}

impl RedriveStore for PostgresStore {
    async fn refused_from(&self, first: WakeId, limit: u32) -> Result<Vec<RefusedRow>, StoreError> {
        let text = include_str!("control/list_refused.sql");
        let read = || query(text).bind(first.uuid()).bind(i64::from(limit));
        let rows = self.sessions.read("the read of refused wakes", read).await?;
        rows.iter().map(refused).collect()
    }

    async fn redrives(&self, wakes: &[WakeId]) -> Result<Vec<Redrive>, StoreError> {
        let mut found = Vec::new();
        for text in
            [include_str!("control/list_redrives.sql"), include_str!("control/list_redriven.sql")]
        {
            let ids: Vec<Uuid> = wakes.iter().map(|wake| wake.uuid()).collect();
            let read = || query(text).bind(ids.clone());
            for row in &self.sessions.read("the read of redrives", read).await? {
                found.push(redrive(row)?);
            }
        }
        Ok(in_order(found))
    }

    async fn last_redrive(&self, wake: WakeId) -> Result<Option<Redrive>, StoreError> {
        let read = || query(include_str!("control/read_redrive.sql")).bind(wake.uuid());
        let rows = self.sessions.write("the read of a redrive", read).await?;
        rows.first().map(redrive).transpose()
    }

    async fn insert_redrive(&self, new: &NewRedrive) -> Result<bool, StoreError> {
        let insert = || {
            query(include_str!("control/insert_redrive.sql"))
                .bind(new.wake_id.uuid())
                .bind(ordinal(new.ordinal))
                .bind(new.message_id.clone())
                .bind(new.outcome)
                .bind(new.outcome_reason.clone())
                .bind(signed(new.after_sequence))
                .bind(new.by.actor.to_string())
                .bind(new.by.reason.to_string())
                .bind(Timestamp(new.by.at))
        };
        Ok(!self.sessions.write("the record of a redrive", insert).await?.is_empty())
    }

    async fn finish_redrive(
        &self,
        wake: WakeId,
        number: u32,
        published: &Published,
    ) -> Result<(), StoreError> {
        let finish = || {
            query(include_str!("control/finish_redrive.sql"))
                .bind(wake.uuid())
                .bind(ordinal(number))
                .bind(Timestamp(published.at))
                .bind(signed(published.sequence))
                .bind(published.wake_id.uuid())
        };
        self.sessions.write("the end of a redrive", finish).await.map(drop)
    }
}
