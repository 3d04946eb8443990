//! What gates in shadow would have refused: kept and read.

use std::collections::HashMap;

use sqlx::query;

use super::super::{BatchRecord, ShadowedWake, StoreError};
use super::reads::{get, get_id, ids};
use super::session::{Prepared, Sessions};
use super::timestamp::Timestamp;
use crate::admission::Shadowed;
use crate::wake::{TaskId, WakeId};

pub(super) async fn read(
    sessions: &Sessions,
    wakes: &[WakeId],
) -> Result<HashMap<WakeId, Shadowed>, StoreError> {
    if wakes.is_empty() {
        return Ok(HashMap::new());
    }
    let ids = ids(wakes);
    let read = || query(include_str!("read_shadowed.sql")).bind(ids.clone());
    let rows = sessions.read("the read of shadowed wakes", read).await?;
    rows.iter()
        .map(|row| {
            let reasons: &str = get(row, "reasons")?;
            let reasons = reasons.split(',').map(str::to_owned).collect();
            Ok((get_id(row, "wake_id")?, Shadowed { reasons, record: get(row, "record")? }))
        })
        .collect()
}

pub(super) fn bind(statement: Prepared, batch: &BatchRecord) -> Prepared {
    let mut shadowed: Vec<&ShadowedWake> = batch.shadowed.iter().collect();
    shadowed.sort_by_key(|shadowed| shadowed.wake.id);
    let wakes = || shadowed.iter().map(|shadowed| &shadowed.wake);
    statement
        .bind(wakes().map(|wake| wake.id.uuid()).collect::<Vec<_>>())
        .bind(wakes().map(|wake| wake.organization_id.as_str()).collect::<Vec<_>>())
        .bind(
            wakes().map(|wake| wake.payload.task().task().map(TaskId::as_str)).collect::<Vec<_>>(),
        )
        .bind(shadowed.iter().map(|shadowed| shadowed.reasons.join(",")).collect::<Vec<_>>())
        .bind(shadowed.iter().map(|shadowed| shadowed.record.as_str()).collect::<Vec<_>>())
        .bind(wakes().map(|wake| Timestamp(wake.requested_at)).collect::<Vec<_>>())
}
