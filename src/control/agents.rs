//! The status of agents. Gate 1 reads what is written here at the next batch, wherever it runs.

use super::documents::{
    AgentDocument, AgentKey, AgentListReply, AgentListRequest, AgentReply, AgentSetRequest,
};
use super::error::{ControlError, ErrorCode};
use super::pages::within_bytes;
use crate::store::control::{AgentQuery, AgentStore, Change};
use crate::wake::UtcMicros;

/// Sets an agent's status.
///
/// # Errors
/// The database does not answer.
pub async fn set<S: AgentStore>(
    store: &S,
    request: AgentSetRequest,
    now: UtcMicros,
) -> Result<AgentReply, ControlError> {
    let id = (request.organization_id, request.agent_profile_id);
    let by = Change { actor: request.actor, reason: request.reason, at: now };
    let agent = store.set_agent(&id, request.status.into(), &by).await?;
    tracing::warn!(
        organization_id = %agent.id.0,
        agent_profile_id = %agent.id.1,
        status = agent.status.as_str(),
        actor = %by.actor,
        reason = %by.reason,
        "the status of an agent was set"
    );
    Ok(AgentReply { agent: agent.into() })
}

/// One agent.
///
/// # Errors
/// `unknown_agent`.
pub async fn get<S: AgentStore>(store: &S, request: AgentKey) -> Result<AgentReply, ControlError> {
    let found = store.agent(&(request.organization_id, request.agent_profile_id)).await?;
    found.map(|agent| AgentReply { agent: agent.into() }).ok_or_else(|| {
        let message = "no status is known of this agent in this organization, so it may run";
        ControlError::new(ErrorCode::UnknownAgent, message)
    })
}

/// Known agents, a page of them.
///
/// # Errors
/// The database does not answer.
pub async fn list<S: AgentStore>(
    store: &S,
    request: AgentListRequest,
) -> Result<AgentListReply, ControlError> {
    let asked = AgentQuery {
        organization_id: request.organization_id,
        status: request.status.map(Into::into),
        after: request.after.map(|key| (key.organization_id, key.agent_profile_id)),
        // One more than is shown says whether there are more.
        agents_max: request.limit + 1,
    };
    let found = store.agents(&asked).await?;
    let page =
        within_bytes::<AgentDocument>(found.into_iter().map(Into::into).collect(), request.limit);
    let next = page.more.then(|| page.rows.last().map(key)).flatten();
    Ok(AgentListReply { agents: page.rows, next })
}

fn key(agent: &AgentDocument) -> AgentKey {
    AgentKey {
        organization_id: agent.organization_id.clone(),
        agent_profile_id: agent.agent_profile_id.clone(),
    }
}
