//! The queue: see [`crate::store::queue`].

mod claim;

use std::collections::HashMap;

use sqlx::query;
use sqlx::sqlite::SqliteRow;

use super::super::control::unknown;
use super::super::queue::held::{self, RunState};
use super::super::queue::{
    CancelAnswer, CancelRequest, CancelScope, ClaimRequest, ClaimedRun, Depth, FinishAnswer,
    FinishRequest, HeartbeatAnswer, Held, MovedRun, QueueDepth, QueueStore, RunEvent, RunEventKind,
    RunStatus, StartAnswer, unsettled,
};
use super::super::{StoreError, fault};
use super::SqliteStore;
use super::reads::{get, get_id, get_instant};
use super::rows::{Prepared, Statement};
use crate::admission::facts::Scoped;
use crate::wake::{OrganizationId, ProjectId, RunId, UtcMicros};

static DEPTH_ORGANIZATIONS: Statement =
    Statement::new(include_str!("queue/depth_organizations.sql"));
static DEPTH_PROJECTS: Statement = Statement::new(include_str!("queue/depth_projects.sql"));
static DELETE_EVENTS: Statement = Statement::new(include_str!("queue/delete_events.sql"));

fn later(row: &SqliteRow, column: &str) -> Result<Option<UtcMicros>, StoreError> {
    Ok(get::<Option<i64>>(row, column)?.map(UtcMicros::from_micros))
}

fn natural(row: &SqliteRow, column: &str) -> Result<u64, StoreError> {
    Ok(u64::try_from(get::<i64>(row, column)?).unwrap_or(0))
}

fn token(held: &Held) -> Result<i64, StoreError> {
    i64::try_from(held.fencing_token).map_err(|_| fault::too_large("a fencing token"))
}

fn organization(row: &SqliteRow) -> Result<OrganizationId, StoreError> {
    OrganizationId::parse(get(row, "organization_id")?)
        .map_err(|_| unknown("a run has an organization"))
}

fn status(row: &SqliteRow) -> Result<RunStatus, StoreError> {
    RunStatus::parse(get(row, "status")?).ok_or_else(|| unknown("a run has a status"))
}

fn moved(row: &SqliteRow) -> Result<MovedRun, StoreError> {
    Ok(MovedRun {
        run_id: get_id(row, "id")?,
        organization_id: organization(row)?,
        status: status(row)?,
    })
}

fn state(row: &SqliteRow) -> Result<RunState, StoreError> {
    Ok(RunState {
        status: status(row)?,
        fencing_token: natural(row, "fencing_token")?,
        lease_expires_at: later(row, "lease_expires_at")?,
        cancel_requested_at: later(row, "cancel_requested_at")?,
        organization_id: get(row, "organization_id")?,
        actor_id: get(row, "actor_id")?,
    })
}

fn event(row: &SqliteRow) -> Result<RunEvent, StoreError> {
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

fn depth(row: &SqliteRow) -> Result<Depth, StoreError> {
    Ok(Depth { queued: natural(row, "queued")?, active: natural(row, "active")? })
}

/// What a row of a read over items is about.
fn asked<'a, T>(row: &SqliteRow, items: &'a [T]) -> Result<&'a T, StoreError> {
    let position = usize::try_from(get::<i64>(row, "position")?).ok();
    position.and_then(|at| items.get(at)).ok_or_else(|| unknown("a depth is asked for"))
}

impl SqliteStore {
    /// The run, as somebody sees it whose change found nothing to change.
    async fn run_state(&self, run: RunId) -> Result<Option<RunState>, StoreError> {
        let read = query(include_str!("queue/read_run.sql")).bind(run.uuid().hyphenated());
        let rows = self.sessions.read_one("the state of a run", read).await?;
        rows.first().map(state).transpose()
    }

    async fn keep(
        &self,
        what: &'static str,
        statement: Prepared,
    ) -> Result<Vec<MovedRun>, StoreError> {
        self.sessions.write(what, statement).await?.iter().map(moved).collect()
    }
}

impl QueueStore for SqliteStore {
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedRun>, StoreError> {
        claim::claim(&self.sessions, request).await
    }

    async fn start(
        &self,
        by: &Held,
        lease_until: UtcMicros,
        now: UtcMicros,
    ) -> Result<StartAnswer, StoreError> {
        for _ in 0..held::ATTEMPTS_MAX {
            let start = query(include_str!("queue/start.sql"))
                .bind(by.run_id.uuid().hyphenated())
                .bind(token(by)?)
                .bind(lease_until.micros())
                .bind(now.micros());
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
        for _ in 0..held::ATTEMPTS_MAX {
            let beat = query(include_str!("queue/heartbeat.sql"))
                .bind(by.run_id.uuid().hyphenated())
                .bind(token(by)?)
                .bind(lease_until.micros())
                .bind(now.micros());
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
        for _ in 0..held::ATTEMPTS_MAX {
            let finish = query(include_str!("queue/finish.sql"))
                .bind(request.held.run_id.uuid().hyphenated())
                .bind(token(&request.held)?)
                .bind(request.end.as_str())
                .bind(request.reason.as_ref().map(ToString::to_string))
                .bind(request.now.micros());
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
            let cancel = query(include_str!("queue/cancel.sql"))
                .bind(request.run_id.uuid().hyphenated())
                .bind(organization.map(ToString::to_string))
                .bind(initiator.map(ToString::to_string))
                .bind(request.actor.to_string())
                .bind(request.reason.to_string())
                .bind(request.now.micros());
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
        let keep = query(include_str!("queue/return_lapsed.sql"))
            .bind(now.micros())
            .bind(i64::from(runs_max));
        self.keep("the return of runs", keep).await
    }

    async fn end_lapsed(&self, now: UtcMicros, runs_max: u32) -> Result<Vec<MovedRun>, StoreError> {
        let keep = query(include_str!("queue/end_lapsed.sql"))
            .bind(now.micros())
            .bind(i64::from(runs_max));
        self.keep("the end of lapsed runs", keep).await
    }

    async fn expire(&self, now: UtcMicros, runs_max: u32) -> Result<Vec<MovedRun>, StoreError> {
        let keep =
            query(include_str!("queue/expire.sql")).bind(now.micros()).bind(i64::from(runs_max));
        self.keep("the end of expired runs", keep).await
    }

    async fn end_unconfirmed(
        &self,
        asked_until: UtcMicros,
        now: UtcMicros,
        runs_max: u32,
    ) -> Result<Vec<MovedRun>, StoreError> {
        let keep = query(include_str!("queue/end_unconfirmed.sql"))
            .bind(asked_until.micros())
            .bind(now.micros())
            .bind(i64::from(runs_max));
        self.keep("the end of cancelled runs", keep).await
    }

    async fn depth(
        &self,
        organizations: &[OrganizationId],
        projects: &[Scoped<ProjectId>],
    ) -> Result<QueueDepth, StoreError> {
        let what = "the depth of the queue";
        let platform =
            self.sessions.read_one(what, query(include_str!("queue/depth_platform.sql")));
        let platform = platform.await?;
        let of_organizations = self.sessions.read(
            what,
            &DEPTH_ORGANIZATIONS,
            organizations,
            |query, position, of| query.bind(position).bind(of.shared()),
            None,
        );
        let of_organizations = of_organizations.await?;
        let of_projects = self.sessions.read(
            what,
            &DEPTH_PROJECTS,
            projects,
            |query, position, (of, project)| {
                query.bind(position).bind(of.shared()).bind(project.shared())
            },
            None,
        );
        let of_projects = of_projects.await?;
        Ok(QueueDepth {
            platform: platform.first().map(depth).transpose()?.unwrap_or_default(),
            organizations: of_organizations
                .iter()
                .map(|row| Ok((asked(row, organizations)?.clone(), depth(row)?)))
                .collect::<Result<HashMap<_, _>, StoreError>>()?,
            projects: of_projects
                .iter()
                .map(|row| Ok((asked(row, projects)?.clone(), depth(row)?)))
                .collect::<Result<HashMap<_, _>, StoreError>>()?,
        })
    }

    async fn take_events(&self, events_max: u32) -> Result<Vec<RunEvent>, StoreError> {
        let take = query(include_str!("queue/take_events.sql")).bind(i64::from(events_max));
        self.sessions.read_one("the events", take).await?.iter().map(event).collect()
    }

    async fn delete_events(&self, ids: &[i64]) -> Result<(), StoreError> {
        let mut left = ids;
        while !left.is_empty() {
            let (delete, later) = DELETE_EVENTS.over(left, |query, id| query.bind(*id));
            self.sessions.write("the deletion of events", delete).await?;
            left = later;
        }
        Ok(())
    }
}
