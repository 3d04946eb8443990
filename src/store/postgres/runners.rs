//! What runners and keepers ask beside the queue: see [`crate::store::runners`].

use std::collections::BTreeSet;

use sqlx::postgres::PgRow;
use sqlx::query;

use super::super::StoreError;
use super::super::queue::{
    CLAIM_ORGANIZATIONS_MAX, ClaimRequest, ClaimedRun, EXPIRED_BY_CLAIM_MAX, Given, Held, MovedRun,
    QueueStore as _, RunStatus,
};
use super::super::runners::{Cancellation, HeldRun, RunnerStore};
use super::PostgresStore;
use super::queue::{give, moved, status};
use super::reads::get;
use super::session::Prepared;
use super::timestamp::Timestamp;
use crate::wake::UtcMicros;

fn held_run(row: &PgRow) -> Result<HeldRun, StoreError> {
    let requested_at: Option<Timestamp> = get(row, "cancel_requested_at")?;
    let cancel = match requested_at {
        None => None,
        Some(at) => Some(Cancellation {
            requested_at: at.0,
            actor: get(row, "cancel_actor")?,
            reason: get(row, "cancel_reason")?,
        }),
    };
    Ok(HeldRun { payload: get(row, "payload")?, cancel })
}

/// What several claims ask for. All are made at the instant of the first, under its ceilings.
fn claims(requests: &[ClaimRequest]) -> Prepared {
    let first = &requests[0];
    let column = |max: u32| i32::try_from(max).unwrap_or(i32::MAX);
    let named = || {
        (1_i32..).zip(requests).flat_map(|(position, request)| {
            let ids = request.organizations.iter().take(CLAIM_ORGANIZATIONS_MAX);
            ids.map(move |id| (position, id.as_str()))
        })
    };
    query(include_str!("runners/claim_each.sql"))
        .bind(requests.iter().map(|one| one.claim_id).collect::<Vec<_>>())
        .bind(requests.iter().map(|one| one.runner.as_str()).collect::<Vec<_>>())
        .bind(requests.iter().map(|one| column(one.runs_max)).collect::<Vec<_>>())
        .bind(requests.iter().map(|one| Timestamp(one.lease_until)).collect::<Vec<_>>())
        .bind(named().map(|(position, _)| position).collect::<Vec<_>>())
        .bind(named().map(|(_, id)| id).collect::<Vec<_>>())
        .bind(Timestamp(first.now))
        .bind(i64::from(first.platform_active_max))
        .bind(i64::from(first.organization_active_max))
        .bind(column(EXPIRED_BY_CLAIM_MAX))
}

impl RunnerStore for PostgresStore {
    async fn claim_each(
        &self,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Vec<ClaimedRun>>, StoreError> {
        match requests {
            [] => return Ok(Vec::new()),
            [request] => return Ok(vec![self.claim(request).await?]),
            _ => {}
        }
        let rows = self.sessions.write("claims", || claims(requests)).await?;
        let mut given = vec![Given::default(); requests.len()];
        let mut locked = BTreeSet::new();
        for row in &rows {
            let at = usize::try_from(get::<i32>(row, "position")? - 1).unwrap_or(usize::MAX);
            if status(row)? == RunStatus::Queued {
                locked.insert(at);
            } else if let Some(given) = given.get_mut(at) {
                give(given, row)?;
            }
        }
        for (at, given) in given.iter_mut().enumerate() {
            if requests[..at].iter().any(|before| before.claim_id == requests[at].claim_id) {
                given.again();
            }
        }
        let mut given: Vec<_> = given.into_iter().map(Given::in_order).collect();
        // Who met a run that somebody else holds waits for it alone. What the others got is theirs.
        for at in locked {
            if given.get(at).is_some_and(Vec::is_empty)
                && let Ok(runs) = self.claim(&requests[at]).await
            {
                given[at] = runs;
            }
        }
        Ok(given)
    }

    async fn held_run(&self, held: &Held) -> Result<Option<HeldRun>, StoreError> {
        // No claim has a greater one.
        let token = i64::try_from(held.fencing_token).unwrap_or(i64::MAX);
        let id = held.run_id.uuid();
        let read = || query(include_str!("runners/held_run.sql")).bind(id).bind(token);
        self.sessions.write("a run", read).await?.first().map(held_run).transpose()
    }

    async fn cancel_stopped(
        &self,
        now: UtcMicros,
        runs_max: u32,
    ) -> Result<Vec<MovedRun>, StoreError> {
        let cancel = || {
            query(include_str!("runners/cancel_stopped.sql"))
                .bind(Timestamp(now))
                .bind(i64::from(runs_max))
        };
        let rows = self.sessions.write("the end of what is stopped", cancel).await?;
        rows.iter().map(moved).collect()
    }
}
