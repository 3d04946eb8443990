//! A wake that is worked alone: each attempt is noted before it begins, and the third that ended with
//! the process makes the wake poison.
//!
//! What is decided already is never poison: it repeats its outcome, however often the process ended
//! between the commit and the acknowledgement.

use std::sync::Arc;

use super::facts::load;
use super::hold::Delays;
use super::process::{BatchEnd, Bench};
use super::work::Work;
use crate::admission::gates::{Verdict, identity};
use crate::audit::AuditLog;
use crate::intake::{Delivery, LaneConsumer};
use crate::metrics::HoldCause;
use crate::store::{LaneCursor, Store};
use crate::wake::WakeId;
use crate::wake::decode::{Content, RejectReason};

/// Attempts that may end with the process before a wake is rejected as poison.
pub const ISOLATED_ATTEMPTS_MAX: u32 = 3;

impl<S: Store, A: AuditLog, C: LaneConsumer> Bench<S, A, C> {
    /// Works one delivery by itself.
    pub(super) async fn work_alone(
        &self,
        cursor: LaneCursor,
        wake: WakeId,
        batch: Vec<Arc<Delivery>>,
    ) -> BatchEnd {
        let mut delays = self.delays();
        let attempts = loop {
            match self.store.begin_isolated(&self.lane, wake).await {
                Ok(attempts) => break attempts,
                Err(error) => {
                    if !self.hold(HoldCause::Store, &error.to_string(), &mut delays).await {
                        return BatchEnd::StoreAway;
                    }
                }
            }
        };
        let end = self.attempt_alone(cursor, batch, attempts, delays).await;
        if let Err(error) = self.store.end_isolated(wake).await {
            tracing::warn!(%wake, %error, "an isolated attempt could not be taken back");
        }
        end
    }

    async fn attempt_alone(
        &self,
        cursor: LaneCursor,
        batch: Vec<Arc<Delivery>>,
        attempts: u32,
        mut delays: Delays,
    ) -> BatchEnd {
        let mut works = self.decode(cursor, batch);
        if attempts >= ISOLATED_ATTEMPTS_MAX {
            for work in &mut works {
                match self.is_decided(cursor, work, &mut delays).await {
                    None => return BatchEnd::StoreAway,
                    Some(true) => {}
                    Some(false) => work.reject(
                        RejectReason::Poison,
                        format!(
                            "{ISOLATED_ATTEMPTS_MAX} attempts at this wake alone ended with the \
                             process"
                        ),
                    ),
                }
            }
        }
        self.settle_all(cursor, works, delays).await
    }

    /// Whether gate 0 knows what became of a wake. Beyond the cursor nothing is known, and nothing
    /// is read: reading may be what ends the process. None when the store stays away.
    async fn is_decided(
        &self,
        cursor: LaneCursor,
        work: &Work,
        delays: &mut Delays,
    ) -> Option<bool> {
        if !cursor.may_have_decided(work.event.envelope.sequence) {
            return Some(false);
        }
        let Content::Wake(wake) = &work.event.content else { return Some(true) };
        loop {
            let loaded = load(&self.store, cursor, &[&**wake], self.asking(false)).await;
            let failure = match (identity::GATE.check)(&loaded.facts, wake) {
                Ok(verdict) => return Some(verdict != Verdict::Pass),
                Err(failure) => failure,
            };
            if !self.hold(HoldCause::Store, &failure.to_string(), delays).await {
                return None;
            }
        }
    }
}
