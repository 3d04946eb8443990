//! What operators ask and change: see [`crate::store::control`].

use sqlx::sqlite::{Sqlite, SqliteRow};
use sqlx::{Row as _, query};

use super::super::control::{
    Agent, AgentQuery, AgentStore, Change, CountStore, NewPause, Pause, PauseMode, PauseScope,
    PauseStore, Released, unknown,
};
use super::super::{StoreError, fault};
use super::SqliteStore;
use super::rows::{Prepared, Statement};
use crate::admission::facts::{AgentStatus, Scoped};
use crate::wake::{AgentId, OrganizationId, UtcMicros, WakeId};

static READ_PAUSE: Statement = Statement::new(include_str!("control/read_pause.sql"));
static READ_ACTIVE_PAUSE: Statement = Statement::new(include_str!("control/read_active_pause.sql"));
static LIST_PAUSED_ORGANIZATIONS: Statement =
    Statement::new(include_str!("control/list_paused_organizations.sql"));
static READ_AGENT: Statement = Statement::new(include_str!("control/read_agent.sql"));
static LIST_AGENTS: Statement = Statement::new(include_str!("control/list_agents.sql"));
static COUNT_QUEUED_RUNS: Statement = Statement::new(include_str!("control/count_queued_runs.sql"));
static COUNT_REFUSALS: Statement = Statement::new(include_str!("control/count_refusals.sql"));
static COUNT_PAUSES: Statement = Statement::new(include_str!("control/count_pauses.sql"));
static COUNT_AGENTS: Statement = Statement::new(include_str!("control/count_agents.sql"));

/// A column, or the fault of a schema that is not the one this program knows.
fn get<'r, T>(row: &'r SqliteRow, column: &str) -> Result<T, StoreError>
where
    T: sqlx::Decode<'r, Sqlite> + sqlx::Type<Sqlite>,
{
    row.try_get(column).map_err(|error| fault::unavailable(&error))
}

fn one<T>(
    rows: &[SqliteRow],
    read: impl Fn(&SqliteRow) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    rows.first().map(read).transpose()
}

fn pause(row: &SqliteRow) -> Result<Pause, StoreError> {
    let released: Option<i64> = get(row, "released_at")?;
    let released = match released {
        None => None,
        Some(at) => Some(Released {
            at: UtcMicros::from_micros(at),
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
        created_at: get(row, "created_at").map(UtcMicros::from_micros)?,
        released,
    })
}

fn agent(row: &SqliteRow) -> Result<Agent, StoreError> {
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
        updated_at: get(row, "updated_at").map(UtcMicros::from_micros)?,
    })
}

fn total(row: &SqliteRow) -> Result<u64, StoreError> {
    get::<i64>(row, "total").map(|total| u64::try_from(total).unwrap_or(0))
}

fn named_totals(rows: &[SqliteRow]) -> Result<Vec<(String, u64)>, StoreError> {
    rows.iter().map(|row| Ok((get(row, "name")?, total(row)?))).collect()
}

impl SqliteStore {
    /// A read that is about one thing, whose arguments `bind` binds.
    async fn ask(
        &self,
        what: &'static str,
        statement: &Statement,
        bind: impl Fn(Prepared) -> Prepared + Send + Sync,
    ) -> Result<Vec<SqliteRow>, StoreError> {
        self.sessions.read(what, statement, &[()], |query, _, ()| bind(query), None).await
    }
}

impl PauseStore for SqliteStore {
    async fn insert_pause(&self, new: &NewPause) -> Result<Option<Pause>, StoreError> {
        let insert = query(include_str!("control/insert_pause.sql"))
            .bind(new.scope.as_str())
            .bind(new.scope.organization().shared())
            .bind(new.mode.as_str())
            .bind(new.by.actor.shared())
            .bind(new.by.reason.shared())
            .bind(new.by.at.micros());
        one(&self.sessions.write("the pause", insert).await?, pause)
    }

    async fn release_pause(&self, id: &str, by: &Change) -> Result<Option<Pause>, StoreError> {
        let release = query(include_str!("control/release_pause.sql"))
            .bind(id.to_owned())
            .bind(by.at.micros())
            .bind(by.actor.shared())
            .bind(by.reason.shared());
        one(&self.sessions.write("the release of a pause", release).await?, pause)
    }

    async fn pause(&self, id: &str) -> Result<Option<Pause>, StoreError> {
        let bind = |query: Prepared| query.bind(id.to_owned());
        one(&self.ask("a pause", &READ_PAUSE, bind).await?, pause)
    }

    async fn active_pause(&self, scope: &PauseScope) -> Result<Option<Pause>, StoreError> {
        let bind = |query: Prepared| query.bind(scope.as_str()).bind(scope.organization().shared());
        one(&self.ask("an active pause", &READ_ACTIVE_PAUSE, bind).await?, pause)
    }

    async fn paused_organizations(
        &self,
        after: Option<&OrganizationId>,
        pauses_max: u32,
    ) -> Result<Vec<Pause>, StoreError> {
        let bind = |query: Prepared| {
            query.bind(after.map(OrganizationId::shared)).bind(i64::from(pauses_max))
        };
        let rows = self.ask("the active pauses", &LIST_PAUSED_ORGANIZATIONS, bind).await?;
        rows.iter().map(pause).collect()
    }
}

impl AgentStore for SqliteStore {
    async fn set_agent(
        &self,
        (organization, id): &Scoped<AgentId>,
        status: AgentStatus,
        by: &Change,
    ) -> Result<Agent, StoreError> {
        let set = query(include_str!("control/set_agent.sql"))
            .bind(organization.shared())
            .bind(id.shared())
            .bind(status.as_str())
            .bind(by.actor.shared())
            .bind(by.reason.shared())
            .bind(by.at.micros());
        one(&self.sessions.write("the status of an agent", set).await?, agent)?
            .ok_or_else(|| fault::unavailable(&sqlx::Error::RowNotFound))
    }

    async fn agent(
        &self,
        (organization, id): &Scoped<AgentId>,
    ) -> Result<Option<Agent>, StoreError> {
        let bind = |query: Prepared| query.bind(organization.shared()).bind(id.shared());
        one(&self.ask("an agent", &READ_AGENT, bind).await?, agent)
    }

    async fn agents(&self, asked: &AgentQuery) -> Result<Vec<Agent>, StoreError> {
        let bind = |query: Prepared| {
            let after = asked.after.as_ref();
            query
                .bind(asked.organization_id.as_ref().map(OrganizationId::shared))
                .bind(asked.status.map(AgentStatus::as_str))
                .bind(after.map(|(organization, _)| organization.shared()))
                .bind(after.map(|(_, id)| id.shared()))
                .bind(i64::from(asked.agents_max))
        };
        self.ask("the agents", &LIST_AGENTS, bind).await?.iter().map(agent).collect()
    }
}

impl CountStore for SqliteStore {
    async fn queued_runs(&self) -> Result<u64, StoreError> {
        let rows = self.ask("the count of queued runs", &COUNT_QUEUED_RUNS, |query| query).await?;
        Ok(one(&rows, total)?.unwrap_or(0))
    }

    async fn refusals_since(&self, since: UtcMicros) -> Result<Vec<(String, u64)>, StoreError> {
        let least = WakeId::first_at(since).uuid().hyphenated();
        let bind = |query: Prepared| query.bind(least);
        named_totals(&self.ask("the count of refusals", &COUNT_REFUSALS, bind).await?)
    }

    async fn pauses_by_scope(&self) -> Result<Vec<(String, u64)>, StoreError> {
        named_totals(&self.ask("the count of pauses", &COUNT_PAUSES, |query| query).await?)
    }

    async fn agents_by_status(&self) -> Result<Vec<(String, u64)>, StoreError> {
        named_totals(&self.ask("the count of agents", &COUNT_AGENTS, |query| query).await?)
    }
}
