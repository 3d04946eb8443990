//! Mistakes about the audit stream.

use wakegate::audit::{AuditClass, AuditError, AuditEvent, AuditLog, Audited};
use wakegate::store::Recorded;

use super::Mistake;
use crate::simulation::audit::{SimAudit, audited};

#[derive(Debug, Clone)]
pub struct MistakenAudit {
    inner: SimAudit,
    mistake: Option<Mistake>,
}

impl MistakenAudit {
    pub fn new(inner: SimAudit, mistake: Option<Mistake>) -> Self {
        Self { inner, mistake }
    }
}

impl AuditLog for MistakenAudit {
    async fn publish(
        &self,
        recorded: Recorded,
        events: &[AuditEvent],
    ) -> Result<Audited, (Recorded, AuditError)> {
        let mut events = events.to_vec();
        if self.mistake == Some(Mistake::ShadowsUntold) {
            events.retain(|event| event.class != AuditClass::WouldRefuse);
        }
        match self.inner.publish(recorded, &events).await {
            Err((recorded, _)) if self.mistake == Some(Mistake::PubAckDropped) => {
                Ok(audited(recorded))
            }
            published => published,
        }
    }
}
