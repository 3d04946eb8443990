//! What others do to the tables of a store under test, and what they see there.

use serde_json::Value;
use wakegate::admission::GateName;
use wakegate::admission::facts::AgentStatus;
use wakegate::admission::limits::{Dimension, OrganizationLimits};
use wakegate::store::memory::{MemoryStore, RunStatus};
use wakegate::wake::{AgentId, OrganizationId};

use super::trace::{Control, Scope};
use crate::harness::outside::{Outside, RunRow};

/// Hands on the tables of a store.
pub trait Hands {
    /// Does what a control step says.
    async fn apply(&self, control: &Control);

    /// Every run.
    async fn rows(&self) -> Vec<RunRow>;

    /// The organization `acme` sets how many of its runs may be queued, or nothing.
    async fn lower(&self, queued_runs_max: Option<u32>);

    /// Leaves the tables as they were made, for the next trace.
    async fn purge(&self);
}

impl Hands for Outside {
    async fn apply(&self, control: &Control) {
        match control {
            Control::ClaimNewest => {
                self.execute(
                    "UPDATE runs SET status = 'claimed' WHERE id = (SELECT id FROM runs \
                     WHERE status = 'queued' ORDER BY requested_at DESC, id DESC LIMIT 1)",
                )
                .await;
            }
            Control::MoveAll { from, to } => {
                self.execute(&format!("UPDATE runs SET status = '{to}' WHERE status = '{from}'"))
                    .await;
            }
            Control::DeleteSucceeded => {
                self.execute("DELETE FROM runs WHERE status = 'succeeded'").await;
            }
            Control::Agent { organization, agent, status } => {
                self.set_agent(organization, agent, status).await;
            }
            Control::Pause { id, scope: Scope::Platform } => self.pause(id, None).await,
            Control::Pause { id, scope: Scope::Organization(organization) } => {
                self.pause(id, Some(organization)).await;
            }
            Control::Count { .. } => panic!("only the store in memory fails on demand"),
            Control::Resume { id, .. } => {
                self.execute(&format!(
                    "UPDATE pauses SET released_at = created_at WHERE id = '{id}'"
                ))
                .await;
            }
        }
    }

    async fn rows(&self) -> Vec<RunRow> {
        self.runs().await
    }

    async fn lower(&self, queued_runs_max: Option<u32>) {
        if let Some(max) = queued_runs_max {
            self.execute(&format!(
                "INSERT INTO organization_limits (organization_id, queued_runs_max) \
                 VALUES ('acme', {max})"
            ))
            .await;
        }
    }

    async fn purge(&self) {
        self.execute(
            "DELETE FROM organization_limits; DELETE FROM intake_slots; DELETE FROM runs; \
             DELETE FROM merged_wakes; DELETE FROM refused_wakes; DELETE FROM shadowed_wakes; \
             DELETE FROM wake_keys; DELETE FROM lanes; DELETE FROM agents; DELETE FROM pauses",
        )
        .await;
    }
}

impl Hands for MemoryStore {
    async fn apply(&self, control: &Control) {
        let scoped = |scope: &Scope| match scope {
            Scope::Platform => None,
            Scope::Organization(organization) => Some(OrganizationId::parse(organization).unwrap()),
        };
        match control {
            Control::ClaimNewest => {
                let queued = self.runs().into_iter().filter(|run| run.status == RunStatus::Queued);
                if let Some(run) = queued.max_by_key(|run| (run.requested_at, run.id)) {
                    assert!(self.set_status(run.id, RunStatus::Claimed));
                }
            }
            Control::MoveAll { from, to } => {
                for run in self.runs() {
                    if run.status.as_str() == *from {
                        assert!(self.set_status(run.id, status(to)));
                    }
                }
            }
            Control::DeleteSucceeded => panic!("this store deletes nothing"),
            Control::Agent { organization, agent, status } => {
                let agent =
                    (OrganizationId::parse(organization).unwrap(), AgentId::parse(agent).unwrap());
                self.set_agent(agent, agent_status(status));
            }
            Control::Pause { id, scope } => MemoryStore::pause(self, scoped(scope), id),
            Control::Count { readable: true } => self.restore(GateName::Allowance),
            Control::Count { readable: false } => self.fail(GateName::Allowance),
            Control::Resume { scope, .. } => self.resume(scoped(scope).as_ref()),
        }
    }

    async fn rows(&self) -> Vec<RunRow> {
        let row = |run: wakegate::store::memory::MemoryRun| RunRow {
            id: run.id.to_string(),
            organization_id: run.organization_id.to_string(),
            agent_profile_id: run.agent_profile_id.to_string(),
            status: run.status.as_str().to_owned(),
            payload: run.payload.text().to_owned(),
            task_id: run.payload.task().task().map(ToString::to_string),
            actor_type: run.payload.actor_type().map(ToString::to_string),
            actor_id: run.payload.actor_id().map(ToString::to_string),
            idempotency_key: run.idempotency_key.map(|key| key.to_string()),
            coalesced_count: i64::from(run.coalesced_count),
            degraded_reason: run.degraded.map(|reason| reason.as_str().to_owned()),
            requested_at: run.requested_at.micros(),
        };
        self.runs().into_iter().map(row).collect()
    }

    async fn lower(&self, queued_runs_max: Option<u32>) {
        let limits =
            OrganizationLimits::default().with(Dimension::QueuedOrganization, queued_runs_max);
        self.set_limits(OrganizationId::parse("acme").unwrap(), limits);
    }

    async fn purge(&self) {
        assert!(self.runs().is_empty(), "each trace has a store in memory of its own");
    }
}

fn status(name: &str) -> RunStatus {
    let named = RunStatus::ALL.into_iter().find(|status| status.as_str() == name);
    named.unwrap_or_else(|| panic!("no status {name}"))
}

fn agent_status(name: &str) -> AgentStatus {
    match name {
        "paused" => AgentStatus::Paused,
        "stopped" => AgentStatus::Stopped,
        "pending_approval" => AgentStatus::PendingApproval,
        _ => AgentStatus::Working,
    }
}

/// A row's payload as JSON, or, where it is none, as it is.
pub fn payload(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}
