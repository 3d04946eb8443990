//! The queue: see [`crate::store::queue`]. Whoever changes a run locks it before the queue, except who
//! claims: that waits for no run while it holds the queue.

use std::collections::HashMap;

use sqlx::postgres::PgRow;
use sqlx::query;

use super::super::control::unknown;
use super::super::queue::held::{self, RunState};
use super::super::queue::{
    CLAIM_ORGANIZATIONS_MAX, CancelAnswer, CancelRequest, CancelScope, ClaimRequest, ClaimedRun,
    Depth, EXPIRED_BY_CLAIM_MAX, FinishAnswer, FinishRequest, Given, HeartbeatAnswer, Held,
    MovedRun, QueueDepth, QueueStore, RunEvent, RunEventKind, RunStatus, StartAnswer, unsettled,
};
use super::super::{StoreError, fault};
use super::PostgresStore;
use super::reads::{get, get_id, get_instant};
use super::session::Prepared;
use super::timestamp::Timestamp;
use crate::admission::facts::Scoped;
use crate::wake::{OrganizationId, ProjectId, RunId, UtcMicros};

fn later(row: &PgRow, column: &str) -> Result<Option<UtcMicros>, StoreError> {
    Ok(get::<Option<Timestamp>>(row, column)?.map(|at| at.0))
}

fn natural(row: &PgRow, column: &str) -> Result<u64, StoreError> {
    Ok(u64::try_from(get::<i64>(row, column)?).unwrap_or(0))
}

fn token(held: &Held) -> Result<i64, StoreError> {
    i64::try_from(held.fencing_token).map_err(|_| fault::too_large("a fencing token"))
}

fn organization(row: &PgRow) -> Result<OrganizationId, StoreError> {
    OrganizationId::parse(get(row, "organization_id")?)
        .map_err(|_| unknown("a run has an organization"))
}

pub(super) fn status(row: &PgRow) -> Result<RunStatus, StoreError> {
    RunStatus::parse(get(row, "status")?).ok_or_else(|| unknown("a run has a status"))
}

fn claimed(row: &PgRow) -> Result<ClaimedRun, StoreError> {
    let absent = || unknown("a claimed run has a lease");
    Ok(ClaimedRun {
        run_id: get_id(row, "id")?,
        fencing_token: natural(row, "fencing_token")?,
        lease_expires_at: later(row, "lease_expires_at")?.ok_or_else(absent)?,
        claimed_at: later(row, "claimed_at")?.ok_or_else(absent)?,
        organization_id: organization(row)?,
        project_id: get(row, "project_id")?,
        agent_profile_id: get(row, "agent_profile_id")?,
        reason: get(row, "reason")?,
        payload: get(row, "payload")?,
        task_id: get(row, "task_id")?,
        actor_type: get(row, "actor_type")?,
        actor_id: get(row, "actor_id")?,
        idempotency_key: get(row, "idempotency_key")?,
        coalesced_count: u32::try_from(get::<i32>(row, "coalesced_count")?).unwrap_or(1),
        producer: get(row, "producer")?,
        traceparent: get(row, "traceparent")?,
        requested_at: get_instant(row, "requested_at")?,
    })
}

/// Gives what is in a row of `claim.sql` and of `claim_each.sql`.
pub(super) fn give(given: &mut Given, row: &PgRow) -> Result<(), StoreError> {
    given.add(get(row, "queue_rank")?, claimed(row)?, get(row, "again")?);
    Ok(())
}

pub(super) fn moved(row: &PgRow) -> Result<MovedRun, StoreError> {
    Ok(MovedRun {
        run_id: get_id(row, "id")?,
        organization_id: organization(row)?,
        status: status(row)?,
    })
}

fn state(row: &PgRow) -> Result<RunState, StoreError> {
    Ok(RunState {
        status: status(row)?,
        fencing_token: natural(row, "fencing_token")?,
        lease_expires_at: later(row, "lease_expires_at")?,
        cancel_requested_at: later(row, "cancel_requested_at")?,
        organization_id: get(row, "organization_id")?,
        actor_id: get(row, "actor_id")?,
    })
}

fn event(row: &PgRow) -> Result<RunEvent, StoreError> {
    Ok(RunEvent {
        id: get(row, "id")?,
        event: RunEventKind::parse(get(row, "event")?)
            .ok_or_else(|| unknown("an event has a kind"))?,
        at: get_instant(row, "at")?,
        run_id: get_id(row, "run_id")?,
        organization_id: organization(row)?,
        project_id: get(row, "project_id")?,
        task_id: get(row, "task_id")?,
        agent_profile_id: get(row, "agent_profile_id")?,
        reason: get(row, "reason")?,
        runner_id: get(row, "runner_id")?,
        fencing_token: natural(row, "fencing_token")?,
        actor: get(row, "actor")?,
        traceparent: get(row, "traceparent")?,
    })
}

fn claim(request: &ClaimRequest) -> Prepared {
    let organizations: Vec<&str> = request
        .organizations
        .iter()
        .take(CLAIM_ORGANIZATIONS_MAX)
        .map(OrganizationId::as_str)
        .collect();
    query(include_str!("queue/claim.sql"))
        .bind(request.claim_id)
        .bind(request.runner.to_string())
        .bind(i32::try_from(request.runs_max).unwrap_or(i32::MAX))
        .bind((!organizations.is_empty()).then_some(organizations))
        .bind(Timestamp(request.now))
        .bind(Timestamp(request.lease_until))
        .bind(i64::from(request.platform_active_max))
        .bind(i64::from(request.organization_active_max))
        .bind(i32::try_from(EXPIRED_BY_CLAIM_MAX).unwrap_or(i32::MAX))
}

impl PostgresStore {
    /// The run, as somebody sees it whose change found nothing to change.
    async fn run_state(&self, run: RunId) -> Result<Option<RunState>, StoreError> {
        let read = || query(include_str!("queue/read_run.sql")).bind(run.uuid());
        // Durable, for it is answered.
        let rows = self.sessions.write("the state of a run", read).await?;
        rows.first().map(state).transpose()
    }

    /// A keeper's statement, which may be repeated: it finds less to do.
    async fn keep(
        &self,
        what: &'static str,
        statement: impl Fn() -> Prepared + Send + Sync,
    ) -> Result<Vec<MovedRun>, StoreError> {
        self.sessions.write(what, statement).await?.iter().map(moved).collect()
    }
}

impl QueueStore for PostgresStore {
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedRun>, StoreError> {
        for _ in 0..held::ATTEMPTS_MAX {
            let rows = self.sessions.write("a claim", || claim(request)).await?;
            let mut given = Given::default();
            let mut locked = None;
            for row in &rows {
                if status(row)? == RunStatus::Queued {
                    locked = Some(get_id(row, "id")?);
                } else {
                    give(&mut given, row)?;
                }
            }
            let Some(locked) = locked.filter(|_| given.is_empty()) else {
                return Ok(given.in_order());
            };
            let wait = || query(include_str!("queue/await_run.sql")).bind(locked.uuid());
            self.sessions.write("the run that is next", wait).await?;
        }
        Ok(Vec::new())
    }

    async fn start(
        &self,
        by: &Held,
        lease_until: UtcMicros,
        now: UtcMicros,
    ) -> Result<StartAnswer, StoreError> {
        let token = token(by)?;
        for _ in 0..held::ATTEMPTS_MAX {
            let start = || {
                query(include_str!("queue/start.sql"))
                    .bind(by.run_id.uuid())
                    .bind(token)
                    .bind(Timestamp(lease_until))
                    .bind(Timestamp(now))
            };
            if let Some(row) = self.sessions.write("a start", start).await?.first() {
                let lease_expires_at = get_instant(row, "lease_expires_at")?;
                return Ok(StartAnswer::Started { lease_expires_at });
            }
            let state = self.run_state(by.run_id).await?;
            if let Some(answer) = held::start(state.as_ref(), by, now) {
                return Ok(answer);
            }
        }
        Err(unsettled())
    }

    async fn heartbeat(
        &self,
        by: &Held,
        lease_until: UtcMicros,
        now: UtcMicros,
    ) -> Result<HeartbeatAnswer, StoreError> {
        let token = token(by)?;
        for _ in 0..held::ATTEMPTS_MAX {
            let beat = || {
                query(include_str!("queue/heartbeat.sql"))
                    .bind(by.run_id.uuid())
                    .bind(token)
                    .bind(Timestamp(lease_until))
                    .bind(Timestamp(now))
            };
            if let Some(row) = self.sessions.write("a heartbeat", beat).await?.first() {
                return Ok(HeartbeatAnswer::Held {
                    lease_expires_at: get_instant(row, "lease_expires_at")?,
                    cancelling: get(row, "cancelling")?,
                });
            }
            let state = self.run_state(by.run_id).await?;
            if let Some(answer) = held::heartbeat(state.as_ref(), by, now) {
                return Ok(answer);
            }
        }
        Err(unsettled())
    }

    async fn finish(&self, request: &FinishRequest) -> Result<FinishAnswer, StoreError> {
        let token = token(&request.held)?;
        for _ in 0..held::ATTEMPTS_MAX {
            let finish = || {
                query(include_str!("queue/finish.sql"))
                    .bind(request.held.run_id.uuid())
                    .bind(token)
                    .bind(request.end.as_str())
                    .bind(request.reason.as_ref().map(ToString::to_string))
                    .bind(Timestamp(request.now))
            };
            if !self.sessions.write("a finish", finish).await?.is_empty() {
                return Ok(FinishAnswer::Finished);
            }
            let state = self.run_state(request.held.run_id).await?;
            if let Some(answer) = held::finish(state.as_ref(), request) {
                return Ok(answer);
            }
        }
        Err(unsettled())
    }

    async fn cancel(&self, request: &CancelRequest) -> Result<CancelAnswer, StoreError> {
        let (organization, initiator) = match &request.scope {
            CancelScope::Platform => (None, None),
            CancelScope::Organization(organization) => (Some(organization), None),
            CancelScope::Initiator(organization, actor) => (Some(organization), Some(actor)),
        };
        for _ in 0..held::ATTEMPTS_MAX {
            let cancel = || {
                query(include_str!("queue/cancel.sql"))
                    .bind(request.run_id.uuid())
                    .bind(organization.map(ToString::to_string))
                    .bind(initiator.map(ToString::to_string))
                    .bind(request.actor.to_string())
                    .bind(request.reason.to_string())
                    .bind(Timestamp(request.now))
            };
            if let Some(row) = self.sessions.write("a cancellation", cancel).await?.first() {
                return Ok(match status(row)? {
                    RunStatus::Cancelled => CancelAnswer::Cancelled,
                    _ => CancelAnswer::Requested { at: get_instant(row, "cancel_requested_at")? },
                });
            }
            let state = self.run_state(request.run_id).await?;
            if let Some(answer) = held::cancel(state.as_ref(), request) {
                return Ok(answer);
            }
        }
        Err(unsettled())
    }

    async fn return_lapsed(
        &self,
        now: UtcMicros,
        runs_max: u32,
    ) -> Result<Vec<MovedRun>, StoreError> {
        let text = include_str!("queue/return_lapsed.sql");
        let keep = || query(text).bind(Timestamp(now)).bind(i64::from(runs_max));
        self.keep("the return of runs", keep).await
    }

    async fn end_lapsed(&self, now: UtcMicros, runs_max: u32) -> Result<Vec<MovedRun>, StoreError> {
        let text = include_str!("queue/end_lapsed.sql");
        let keep = || query(text).bind(Timestamp(now)).bind(i64::from(runs_max));
        self.keep("the end of lapsed runs", keep).await
    }

    async fn expire(&self, now: UtcMicros, runs_max: u32) -> Result<Vec<MovedRun>, StoreError> {
        let text = include_str!("queue/expire.sql");
        let keep = || query(text).bind(Timestamp(now)).bind(i64::from(runs_max));
        self.keep("the end of expired runs", keep).await
    }

    async fn end_unconfirmed(
        &self,
        asked_until: UtcMicros,
        now: UtcMicros,
        runs_max: u32,
    ) -> Result<Vec<MovedRun>, StoreError> {
        let text = include_str!("queue/end_unconfirmed.sql");
        let keep = || {
            query(text).bind(Timestamp(asked_until)).bind(Timestamp(now)).bind(i64::from(runs_max))
        };
        self.keep("the end of cancelled runs", keep).await
    }

    async fn depth(
        &self,
        organizations: &[OrganizationId],
        projects: &[Scoped<ProjectId>],
    ) -> Result<QueueDepth, StoreError> {
        let read = || {
            let names: Vec<&str> = organizations.iter().map(OrganizationId::as_str).collect();
            let (of, ids): (Vec<&str>, Vec<&str>) =
                projects.iter().map(|(of, project)| (of.as_str(), project.as_str())).unzip();
            query(include_str!("queue/depth.sql")).bind(names).bind(of).bind(ids)
        };
        let mut answer = QueueDepth {
            platform: Depth::default(),
            organizations: HashMap::new(),
            projects: HashMap::new(),
        };
        for row in &self.sessions.read("the depth of the queue", read).await? {
            let depth = Depth { queued: natural(row, "queued")?, active: natural(row, "active")? };
            let position = usize::try_from(get::<i32>(row, "position")? - 1).ok();
            match (get::<i32>(row, "kind")?, position) {
                (0, _) => answer.platform = depth,
                (1, Some(at)) => {
                    let of =
                        organizations.get(at).ok_or_else(|| unknown("a depth is asked for"))?;
                    answer.organizations.insert(of.clone(), depth);
                }
                (_, at) => {
                    let of = at.and_then(|at| projects.get(at));
                    let of = of.ok_or_else(|| unknown("a depth is asked for"))?;
                    answer.projects.insert(of.clone(), depth);
                }
            }
        }
        Ok(answer)
    }

    async fn take_events(&self, events_max: u32) -> Result<Vec<RunEvent>, StoreError> {
        let text = include_str!("queue/take_events.sql");
        let read = || query(text).bind(i64::from(events_max));
        // Told to everybody, so it must not be undone by a crash.
        self.sessions.write("the events", read).await?.iter().map(event).collect()
    }

    async fn delete_events(&self, ids: &[i64]) -> Result<(), StoreError> {
        let text = include_str!("queue/delete_events.sql");
        let delete = || query(text).bind(ids.to_vec());
        self.sessions.write("the deletion of events", delete).await.map(drop)
    }
}
