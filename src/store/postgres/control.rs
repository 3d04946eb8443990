//! What operators ask and change: see [`crate::store::control`].

use sqlx::postgres::{PgRow, Postgres};
use sqlx::{Row as _, query};

use super::super::control::{
    Agent, AgentQuery, AgentStore, Change, CountStore, NewPause, Pause, PauseMode, PauseScope,
    PauseStore, Released, unknown,
};
use super::super::{StoreError, fault};
use super::PostgresStore;
use super::timestamp::Timestamp;
use crate::admission::facts::{AgentStatus, Scoped};
use crate::wake::{AgentId, OrganizationId, UtcMicros, WakeId};

/// A column, or the fault of a schema that is not the one this program knows.
fn get<'r, T>(row: &'r PgRow, column: &str) -> Result<T, StoreError>
where
    T: sqlx::Decode<'r, Postgres> + sqlx::Type<Postgres>,
{
    row.try_get(column).map_err(|error| fault::unavailable(&error))
}

fn one<T>(
    rows: &[PgRow],
    read: impl Fn(&PgRow) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    rows.first().map(read).transpose()
}

fn pause(row: &PgRow) -> Result<Pause, StoreError> {
    let released: Option<Timestamp> = get(row, "released_at")?;
    let released = match released {
        None => None,
        Some(at) => Some(Released {
            at: at.0,
            by: get(row, "released_by")?,
            reason: get(row, "release_reason")?,
        }),
    };
    Ok(Pause {
        id: get(row, "id")?,
        scope: PauseScope::of(get(row, "scope")?, get(row, "organization_id")?)
            .ok_or_else(|| unknown("a pause has a scope"))?,
        mode: PauseMode::parse(get(row, "mode")?).ok_or_else(|| unknown("a pause has a mode"))?,
        actor: get(row, "actor")?,
        reason: get(row, "reason")?,
        created_at: get::<Timestamp>(row, "created_at")?.0,
        released,
    })
}

fn agent(row: &PgRow) -> Result<Agent, StoreError> {
    let id = |_| unknown("an agent has an id");
    Ok(Agent {
        id: (
            OrganizationId::parse(get(row, "organization_id")?).map_err(id)?,
            AgentId::parse(get(row, "agent_profile_id")?).map_err(id)?,
        ),
        status: AgentStatus::parse(get(row, "status")?)
            .ok_or_else(|| unknown("an agent has a status"))?,
        actor: get(row, "actor")?,
        reason: get(row, "reason")?,
        updated_at: get::<Timestamp>(row, "updated_at")?.0,
    })
}

fn total(row: &PgRow) -> Result<u64, StoreError> {
    get::<i64>(row, "total").map(|total| u64::try_from(total).unwrap_or(0))
}

fn named_totals(rows: &[PgRow]) -> Result<Vec<(String, u64)>, StoreError> {
    rows.iter().map(|row| Ok((get(row, "name")?, total(row)?))).collect()
}

impl PauseStore for PostgresStore {
    async fn insert_pause(&self, new: &NewPause) -> Result<Option<Pause>, StoreError> {
        let insert = || {
            query(include_str!("control/insert_pause.sql"))
                .bind(new.scope.as_str())
                .bind(new.scope.organization().to_string())
                .bind(new.mode.as_str())
                .bind(new.by.actor.to_string())
                .bind(new.by.reason.to_string())
                .bind(Timestamp(new.by.at))
        };
        one(&self.sessions.write("the pause", insert).await?, pause)
    }

    async fn release_pause(&self, id: &str, by: &Change) -> Result<Option<Pause>, StoreError> {
        let release = || {
            query(include_str!("control/release_pause.sql"))
                .bind(id.to_owned())
                .bind(Timestamp(by.at))
                .bind(by.actor.to_string())
                .bind(by.reason.to_string())
        };
        one(&self.sessions.write("the release of a pause", release).await?, pause)
    }

    async fn pause(&self, id: &str) -> Result<Option<Pause>, StoreError> {
        let read = || query(include_str!("control/read_pause.sql")).bind(id.to_owned());
        one(&self.sessions.write("a pause", read).await?, pause)
    }

    async fn active_pause(&self, scope: &PauseScope) -> Result<Option<Pause>, StoreError> {
        let read = || {
            query(include_str!("control/read_active_pause.sql"))
                .bind(scope.as_str())
                .bind(scope.organization().to_string())
        };
        one(&self.sessions.write("an active pause", read).await?, pause)
    }

    async fn paused_organizations(
        &self,
        after: Option<&OrganizationId>,
        pauses_max: u32,
    ) -> Result<Vec<Pause>, StoreError> {
        let read = || {
            query(include_str!("control/list_paused_organizations.sql"))
                .bind(after.map(OrganizationId::to_string))
                .bind(i64::from(pauses_max))
        };
        self.sessions.read("the active pauses", read).await?.iter().map(pause).collect()
    }
}

impl AgentStore for PostgresStore {
    async fn set_agent(
        &self,
        (organization, id): &Scoped<AgentId>,
        status: AgentStatus,
        by: &Change,
    ) -> Result<Agent, StoreError> {
        let set = || {
            query(include_str!("control/set_agent.sql"))
                .bind(organization.to_string())
                .bind(id.to_string())
                .bind(status.as_str())
                .bind(by.actor.to_string())
                .bind(by.reason.to_string())
                .bind(Timestamp(by.at))
        };
        one(&self.sessions.write("the status of an agent", set).await?, agent)?
            .ok_or_else(|| fault::unavailable(&sqlx::Error::RowNotFound))
    }

    async fn agent(
        &self,
        (organization, id): &Scoped<AgentId>,
    ) -> Result<Option<Agent>, StoreError> {
        let read = || {
            query(include_str!("control/read_agent.sql"))
                .bind(organization.to_string())
                .bind(id.to_string())
        };
        one(&self.sessions.read("an agent", read).await?, agent)
    }

    async fn agents(&self, asked: &AgentQuery) -> Result<Vec<Agent>, StoreError> {
        let read = || {
            let after = asked.after.as_ref();
            query(include_str!("control/list_agents.sql"))
                .bind(asked.organization_id.as_ref().map(OrganizationId::to_string))
                .bind(asked.status.map(AgentStatus::as_str))
                .bind(after.map(|(organization, _)| organization.to_string()))
                .bind(after.map(|(_, id)| id.to_string()))
                .bind(i64::from(asked.agents_max))
        };
        self.sessions.read("the agents", read).await?.iter().map(agent).collect()
    }
}

impl CountStore for PostgresStore {
    async fn queued_runs(&self) -> Result<u64, StoreError> {
        let count = || query(include_str!("control/count_queued_runs.sql"));
        Ok(one(&self.sessions.read("the count of queued runs", count).await?, total)?.unwrap_or(0))
    }

    async fn refusals_since(&self, since: UtcMicros) -> Result<Vec<(String, u64)>, StoreError> {
        let least = WakeId::first_at(since).uuid();
        let count = || query(include_str!("control/count_refusals.sql")).bind(least);
        named_totals(&self.sessions.read("the count of refusals", count).await?)
    }

    async fn pauses_by_scope(&self) -> Result<Vec<(String, u64)>, StoreError> {
        let count = || query(include_str!("control/count_pauses.sql"));
        named_totals(&self.sessions.read("the count of pauses", count).await?)
    }

    async fn agents_by_status(&self) -> Result<Vec<(String, u64)>, StoreError> {
        let count = || query(include_str!("control/count_agents.sql"));
        named_totals(&self.sessions.read("the count of agents", count).await?)
    }
}
