//! What gates in shadow would have refused: kept and read.

use std::collections::HashMap;

use super::super::distinct::distinct;
use super::super::{ShadowedWake, StoreError};
use super::reads::{get, get_id};
use super::rows::{Prepared, Statement};
use super::session::Sessions;
use crate::admission::Shadowed;
use crate::wake::{TaskId, WakeId};

static READ: Statement = Statement::new(include_str!("read_shadowed.sql"));

pub(super) static INSERT: Statement = Statement::new(include_str!("insert_shadowed.sql"));

pub(super) async fn read(
    sessions: &Sessions,
    wakes: &[WakeId],
) -> Result<HashMap<WakeId, Shadowed>, StoreError> {
    let wakes = distinct(wakes);
    let bind = |query: Prepared, _, wake: &&WakeId| query.bind(wake.uuid().hyphenated());
    let rows = sessions.read("the read of shadowed wakes", &READ, &wakes, bind, None).await?;
    rows.iter()
        .map(|row| {
            let reasons: &str = get(row, "reasons")?;
            let reasons = reasons.split(',').map(str::to_owned).collect();
            Ok((get_id(row, "wake_id")?, Shadowed { reasons, record: get(row, "record")? }))
        })
        .collect()
}

pub(super) fn bind(query: Prepared, shadowed: &ShadowedWake) -> Prepared {
    query
        .bind(shadowed.wake.id.uuid().hyphenated())
        .bind(shadowed.wake.organization_id.shared())
        .bind(shadowed.wake.payload.task().task().map(TaskId::shared))
        .bind(shadowed.reasons.join(","))
        .bind(shadowed.record.clone())
        .bind(shadowed.wake.requested_at.micros())
}
